#include "runtime/score/Scorer.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/plan/List.h"
#include "runtime/sample/Sampler.h"

#include <algorithm>

#include <fmt/format.h>

namespace m3c {

namespace {

using Text = ScoreInput::Text;

TraceShape traceShape(const plan::Model &model) {
  TraceShape shape;
  shape.layers = model.layers();
  shape.kvHeads = model.kv_heads();
  shape.topkBlocks = model.topk_blocks();
  shape.expertsPerToken = model.experts_per_token();
  auto moe = plan::list(model.moe_layers());
  for (uint32_t layer = 0; layer < moe.size(); ++layer)
    if (moe[layer])
      shape.moeLayers.push_back(layer);
  return shape;
}

std::span<const int32_t> asInts(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const int32_t *>(bytes.data()), bytes.size() / 4};
}

class Scorer {
public:
  Scorer(const Engine &engine, Session &session, const ScoreOptions &options,
         const std::function<void(uint64_t, uint64_t)> &progress, uint64_t total)
      : session(session), options(options), shape(traceShape(*engine.tables().model())),
        progress(progress), total(total) {}

  void scoreTexts(std::span<const Text> texts) {
    std::vector<TextScore> scores;
    std::vector<TextTrace> traces;
    std::vector<Append> appends;
    for (const Text &text : texts) {
      scores.emplace_back(text.name, text.ids);
      traces.emplace_back(text.name, text.ids.size(), shape);
      appends.push_back({session.create(), text.ids, Want::All});
    }
    TraceSink sink;
    if (options.traceBlocks || options.traceExperts)
      sink = [&](const TraceRow &row) {
        if (row.kind == plan::TapKind::Blocks)
          traces[row.append].addBlocks(row.layer, row.token, asInts(row.bytes));
        else if (row.kind == plan::TapKind::Experts)
          traces[row.append].addExperts(row.layer, row.token, asInts(row.bytes));
      };
    session.run(
        appends,
        [&](size_t append, size_t token, std::span<const float> logits) {
          scores[append].addLogits(token, logits);
          advance();
        },
        sink);
    for (size_t i = 0; i < texts.size(); ++i) {
      scores[i].write(out);
      traces[i].write(out, options.traceBlocks, options.traceExperts);
      session.release(appends[i].sequence);
    }
  }

  void continuePrompts(std::span<const Text> prompts) {
    std::vector<std::vector<int32_t>> made(prompts.size());
    std::vector<Append> appends;
    for (const Text &prompt : prompts)
      appends.push_back({session.create(), prompt.ids, Want::Last});
    for (std::vector<int32_t> &ids : made)
      ids.reserve(options.maxTokens); // the next step reads the last id in place
    for (uint32_t i = 0; i < options.maxTokens; ++i) {
      session.run(appends, [&](size_t append, size_t, std::span<const float> logits) {
        made[append].push_back(sample::argmax(logits, prompts[append].ids.size() + i));
        advance();
      });
      for (size_t p = 0; p < made.size(); ++p)
        appends[p].tokens = std::span<const int32_t>(made[p]).last(1);
    }
    for (size_t p = 0; p < made.size(); ++p) {
      writeGreedy(out, prompts[p].name, made[p]);
      session.release(appends[p].sequence);
    }
  }

  SafetensorsWriter out;

private:
  void advance() {
    if (progress)
      progress(++done, total);
  }

  Session &session;
  const ScoreOptions &options;
  TraceShape shape;
  const std::function<void(uint64_t, uint64_t)> &progress;
  uint64_t done = 0, total;
};

/// Calls `use` with up to `batch` texts at a time.
void inBatches(const std::vector<Text> &texts, uint32_t batch,
               const std::function<void(std::span<const Text>)> &use) {
  std::span<const Text> rest = texts;
  while (!rest.empty()) {
    size_t count = std::min<size_t>(batch, rest.size());
    use(rest.first(count));
    rest = rest.subspan(count);
  }
}

} // namespace

/// Tokens that follow a prompt in the cache: the last one is chosen, not run.
static uint64_t generatedRows(const ScoreOptions &options) {
  return std::max<uint32_t>(1, options.maxTokens) - 1;
}

SessionOptions scoreSession(const Engine &engine, const ScoreInput &input,
                            const ScoreOptions &options) {
  uint64_t page = engine.tables().cache()->page_tokens();
  SessionOptions session;
  session.maxSequences = uint32_t(std::min<uint64_t>(
      std::max<uint32_t>(1, options.batch), std::max(input.texts.size(), input.prompts.size())));
  session.chunk = options.chunk;
  auto pages = [&](uint64_t more) {
    return [&, more](std::span<const Text> texts) {
      uint64_t sum = 0;
      for (const Text &text : texts)
        sum += (text.ids.size() + more + page - 1) / page;
      session.pages = std::max(session.pages, sum);
    };
  };
  inBatches(input.texts, session.maxSequences, pages(0));
  inBatches(input.prompts, session.maxSequences, pages(generatedRows(options)));
  return session;
}

void checkLengths(const Engine &engine, const ScoreInput &input, const ScoreOptions &options,
                  const SessionOptions &session) {
  uint64_t context = engine.tables().model()->max_positions();
  uint64_t cache = session.pages * engine.tables().cache()->page_tokens();
  uint64_t limit = std::min(context, cache), more = generatedRows(options);
  std::string why =
      fmt::format("{} is {} tokens", limit == context ? "the model's context" : "the cache", limit);
  const char *next = limit == context ? "shorten it" : "shorten it or raise --kv-pages";
  for (const Text &text : input.texts)
    if (text.ids.size() > limit)
      throw Error(fmt::format("tensor ids.{} is too long", printable(text.name)), input.file,
                  fmt::format("it has {} tokens, the longest that fits is {}: {}", text.ids.size(),
                              limit, why),
                  next);
  for (const Text &prompt : input.prompts)
    if (prompt.ids.size() + more > limit)
      throw Error(fmt::format("tensor prompt.{} is too long", printable(prompt.name)), input.file,
                  fmt::format("it has {} tokens, the longest that fits with --max-tokens {} is {}: "
                              "{}",
                              prompt.ids.size(), options.maxTokens, limit > more ? limit - more : 0,
                              why),
                  fmt::format("{}, or lower --max-tokens", next));
}

uint64_t scoreTokens(const ScoreInput &input, const ScoreOptions &options) {
  uint64_t total = input.prompts.size() * uint64_t(options.maxTokens);
  for (const Text &text : input.texts)
    total += text.ids.size();
  return total;
}

SafetensorsWriter score(const Engine &engine, Session &session, const ScoreInput &input,
                        const ScoreOptions &options,
                        const std::function<void(uint64_t done, uint64_t total)> &progress) {
  Scorer scorer(engine, session, options, progress, scoreTokens(input, options));
  uint32_t batch = std::max<uint32_t>(1, options.batch);
  inBatches(input.texts, batch, [&](std::span<const Text> texts) { scorer.scoreTexts(texts); });
  inBatches(input.prompts, batch,
            [&](std::span<const Text> prompts) { scorer.continuePrompts(prompts); });
  return std::move(scorer.out);
}

} // namespace m3c
