#include "tools/m3-bench/Workload.h"

#include "tools/common/ReadWeights.h"

#include "runtime/base/Error.h"
#include "runtime/base/Progress.h"
#include "runtime/plan/List.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

namespace m3c::bench {

namespace {

constexpr uint64_t firstPrompt = 8; // tokens of the start measurement

} // namespace

Workload::Workload(const PlanOptions &given, const Need &need)
    : options(given), random(given.seed) {
  open(options, need);
}

uint64_t Workload::pagesOf(uint64_t tokens) const {
  uint64_t page = tables().cache()->page_tokens();
  return (tokens + page - 1) / page;
}

void Workload::open(const PlanOptions &options, const Need &need) {
  UsageClock begun;
  hal::DeviceOptions device;
  device.threads = options.threads;
  device.device = options.device;
  loaded = std::make_unique<Engine>(plan::PlanFile::open(options.plan), device);
  times.open = begun.wallSeconds();
  uint64_t longest = tables().model()->max_positions();
  if (need.tokens > longest)
    throw Error(fmt::format("{} tokens are too many", need.tokens), options.plan,
                fmt::format("the model's context is {} tokens", longest),
                "ask for a shorter --context or --prompt");
  SessionOptions session;
  uint64_t tokens = std::max(need.tokens, firstPrompt);
  session.pages = pagesOf(tokens);
  for (const Need::Together &step : need.together)
    session.pages = std::max(session.pages, step.sequences * pagesOf(step.tokens));
  ++session.pages;
  session.maxSequences = need.sequences;
  session.maxTokens = pagesOf(tokens) * tables().cache()->page_tokens();
  session.chunk = options.chunk;
  Session::checkMemory(*loaded, session);
  begun = UsageClock();
  readWeights(*loaded, options.weights, options.progress);
  times.weights = begun.wallSeconds();
  begun = UsageClock();
  running = std::make_unique<Session>(*loaded, session);
  times.session = begun.wallSeconds();
  begun = UsageClock();
  SequenceId first = prefill(firstPrompt);
  times.firstToken = begun.wallSeconds();
  running->release(first);
}

std::span<const int32_t> Workload::nextTokens(uint64_t count) {
  uint64_t vocab = tables().model()->vocab();
  ids.resize(count);
  for (int32_t &id : ids) { // Knuth's MMIX generator; its high bits are good
    random = random * 6364136223846793005u + 1442695040888963407u;
    id = int32_t((random >> 33) % vocab);
  }
  return ids;
}

SequenceId Workload::prefill(uint64_t tokens, ExpertCounts *experts) {
  SequenceId sequence = running->create();
  append(std::span(&sequence, 1), tokens, experts);
  return sequence;
}

void Workload::append(std::span<const SequenceId> sequences, uint64_t tokens,
                      ExpertCounts *experts) {
  std::span<const int32_t> all = nextTokens(tokens * sequences.size());
  appends.clear();
  for (SequenceId sequence : sequences)
    appends.push_back({sequence, all.subspan(appends.size() * tokens, tokens), Want::Last});
  run(appends, experts);
}

void Workload::run(std::span<const Append> appends, ExpertCounts *experts) {
  if (!experts)
    return running->run(appends, nullptr);
  uint32_t layers = tables().model()->layers(), chosen = tables().model()->experts_per_token();
  std::vector<std::vector<std::set<int32_t>>> seen;
  running->run(appends, nullptr, [&](const TraceRow &row) {
    size_t step = row.token / options.chunk;
    if (row.kind != plan::TapKind::Experts)
      return;
    seen.resize(std::max(seen.size(), step + 1), std::vector<std::set<int32_t>>(layers));
    std::vector<int32_t> ids(chosen);
    std::memcpy(ids.data(), row.bytes.data(), std::min(row.bytes.size(), ids.size() * 4));
    seen[step][row.layer].insert(ids.begin(), ids.end());
  });
  experts->clear();
  for (const auto &step : seen) {
    std::vector<uint32_t> &counts = experts->emplace_back();
    for (const auto &layer : step)
      counts.push_back(uint32_t(layer.size()));
  }
}

SequenceId Workload::grown(uint64_t tokens, bool madeUp) {
  if (tokens <= longestReal && !madeUp)
    return prefill(tokens);
  SequenceId sequence = running->create();
  running->extendMadeUp(sequence, tokens);
  return sequence;
}

std::vector<StepShape> Workload::prefillShapes(uint64_t tokens, const ExpertCounts &experts) const {
  std::vector<StepShape> shapes;
  uint32_t largest = 0;
  for (const plan::Bucket *bucket : plan::list(engine().target().buckets()))
    largest = std::max(largest, bucket->rows());
  uint64_t chunk = std::min(options.chunk, largest);
  for (uint64_t done = 0; done < tokens; done += chunk) {
    uint64_t rows = std::min(chunk, tokens - done);
    StepShape shape{done, uint32_t(rows), done + rows == tokens ? 1u : 0u};
    // The counts are by the session's chunk, which is this one unless the largest bucket is less.
    if (chunk == options.chunk && done / chunk < experts.size())
      shape.distinctExperts = experts[done / chunk];
    shapes.push_back(shape);
  }
  return shapes;
}

uint64_t Workload::workingSet(uint64_t context) const {
  const plan::Cache &cache = *tables().cache();
  return Weights::bytesNeeded(tables(), loaded->target()) +
         (context / cache.page_tokens() + 1) * cache.page_bytes();
}

nlohmann::ordered_json Workload::json() const {
  const plan::Model &model = *tables().model();
  nlohmann::ordered_json out;
  out["plan"] = {{"file", options.plan},
                 {"weights", options.weights},
                 {"model", model.model_type() ? model.model_type()->str() : ""},
                 {"layers", model.layers()},
                 {"hidden", model.hidden()},
                 {"experts", model.experts()},
                 {"vocab", model.vocab()},
                 {"cache", plan::spelled(plan::EnumNameCacheType(tables().cache()->type()))},
                 {"weight_bytes", Weights::bytesNeeded(tables(), loaded->target())},
                 {"target", loaded->target().name()->str()},
                 {"chip", loaded->target().chip()->str()}};
  out["device"] = deviceJson(loaded->device().info());
  out["threads"] = threads();
  out["start_seconds"] = {{"open", times.open},
                          {"weights", times.weights},
                          {"session", times.session},
                          {"first_token", times.firstToken},
                          {"total", times.total()}};
  return out;
}

std::string Workload::text() const {
  const plan::Model &model = *tables().model();
  return fmt::format("plan     {}: {} layers, hidden {}, {} experts, {} of weights ({}), cache {}\n"
                     "code     {} on {}, {} threads here\n"
                     "start    plan {:.1f} ms, weights {:.1f} ms, session {:.1f} ms, first token "
                     "({} tokens) {:.1f} ms: {:.1f} ms\n",
                     options.plan, model.layers(), model.hidden(), model.experts(),
                     byteText(Weights::bytesNeeded(tables(), loaded->target())), options.weights,
                     plan::spelled(plan::EnumNameCacheType(tables().cache()->type())),
                     loaded->target().chip()->str(), deviceText(loaded->device().info()), threads(),
                     times.open * 1e3, times.weights * 1e3, times.session * 1e3, firstPrompt,
                     times.firstToken * 1e3, times.total() * 1e3);
}

} // namespace m3c::bench
