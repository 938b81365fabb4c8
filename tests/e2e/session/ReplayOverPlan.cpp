// Recorded graphs against the same launches started one by one: two sessions live the same random
// life, and every logit must be the same bit for bit. Batches of up to 256 sequences with 1 to 16
// rows each, lengths around block boundaries, sequences that come and go, shuffled pages of which
// many lie beyond 4 GiB where the pool is that large, unused bytes poisoned. A replay builds,
// allocates and records nothing, and reads nothing but logits.
//
//   replay_over_plan PLAN WEIGHTS STEPS [SEQUENCES [PAGES [DEVICE]]]
#include "runtime/base/Error.h"
#include "runtime/schedule/Session.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>

using namespace m3c;

namespace {

constexpr uint32_t mostRows = 16, longest = 2600;

/// Rows of a step: of one graph, so no more than the largest bucket.
uint32_t mostStepRows(const Engine &engine) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < engine.target().buckets()->size(); ++i)
    most = std::max(most, engine.bucket(i).rows());
  return std::min(most, 512u);
}

class Twins {
public:
  Twins(const Engine &engine, uint32_t sequences, uint64_t pages, uint64_t seed)
      : engine(engine), sequences(sequences), stepRows(mostStepRows(engine)), random(seed),
        recorded(engine, options(pages, true)), direct(engine, options(pages, false)),
        lengths(sequences, 0) {
    for (uint32_t i = 0; i < sequences; ++i) {
      recorded.create();
      direct.create();
    }
  }

  /// Throws Error when the two differ, or a replay did more than it may.
  void step() {
    chooseAppends();
    renew();
    std::vector<std::vector<float>> rows(appends.size());
    direct.run(appends, [&](size_t append, size_t, std::span<const float> logits) {
      rows[append].assign(logits.begin(), logits.end());
    });
    bool isNew = shapes.insert(shape()).second;
    Counts before = counts();
    size_t seen = 0;
    recorded.run(appends, [&](size_t append, size_t, std::span<const float> logits) {
      ++seen;
      if (std::memcmp(logits.data(), rows[append].data(), logits.size_bytes()) != 0)
        fail(fmt::format("the logits of sequence {} differ", appends[append].sequence));
    });
    check(before, counts(), isNew, seen);
    for (const Append &append : appends)
      lengths[append.sequence] += append.tokens.size();
    ++steps;
    allRows += rowsNow;
  }

  std::string text() const {
    return fmt::format("{} steps, {} rows, {} graphs: the same as without them", steps, allRows,
                       shapes.size());
  }

private:
  struct Counts {
    uint64_t built, prepared, allocations, reads;
  };
  using Shape = std::pair<uint32_t, uint32_t>; ///< bucket's rows, blocks

  SessionOptions options(uint64_t pages, bool record) const {
    return {.pages = pages,
            .maxSequences = sequences,
            .chunk = mostRows,
            .maxTokens = longest + mostRows,
            .shuffleSeed = 11,
            .poison = true,
            .record = record};
  }

  uint32_t below(uint32_t bound) { return uint32_t(random() % bound); }

  void chooseAppends() {
    constexpr uint32_t sizes[] = {1, 1, 2, 3, 4, 7, 8, 16, 17, 32, 64, 100, 128, 200, 256};
    uint32_t count = std::min({sizes[below(std::size(sizes))], sequences, stepRows});
    uint32_t most = std::min(mostRows, stepRows / count);
    std::vector<uint32_t> chosen(sequences);
    std::iota(chosen.begin(), chosen.end(), 0);
    std::shuffle(chosen.begin(), chosen.end(), random);
    int32_t vocab = int32_t(engine.tables().model()->vocab());
    appends.clear();
    tokens.assign(stepRows, 0);
    for (int32_t &token : tokens)
      token = int32_t(below(uint32_t(vocab)));
    rowsNow = 0;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t rows = 1 + below(most);
      appends.push_back({chosen[i], std::span(tokens).subspan(rowsNow, rows), Want::Last});
      rowsNow += rows;
    }
  }

  /// A sequence that would grow too long begins anew, and now and then another one, of a length
  /// at which blocks, tiles and selections begin or end, or any.
  void renew() {
    constexpr uint32_t special[] = {0, 1, 127, 128, 129, 1023, 1024, 2047, 2048, 2049};
    bool one = below(4) == 0;
    for (const Append &append : appends) {
      if (!std::exchange(one, false) && lengths[append.sequence] + append.tokens.size() <= longest)
        continue;
      uint32_t length = below(2) ? special[below(std::size(special))] : below(700);
      for (Session *session : {&recorded, &direct}) {
        session->release(append.sequence);
        if (session->create() != append.sequence)
          fail("a sequence has another number");
        if (length > 0)
          session->extendMadeUp(append.sequence, length);
      }
      lengths[append.sequence] = length;
    }
  }

  Shape shape() const {
    uint64_t most = 0;
    for (const Append &append : appends)
      most = std::max(most, lengths[append.sequence] + append.tokens.size());
    uint32_t bucket = 0;
    for (uint32_t i = engine.target().buckets()->size(); i-- > 0;)
      if (engine.bucket(i).rows() >= rowsNow)
        bucket = engine.bucket(i).rows();
    return {bucket, blocksBucket((most + 127) / 128)};
  }

  Counts counts() const {
    hal::Counters &counters = engine.device().counters();
    return {counters.launchesBuilt, counters.graphsPrepared, counters.allocations,
            counters.hostReads};
  }

  void check(const Counts &before, const Counts &after, bool isNew, size_t logitRows) const {
    if (logitRows != appends.size())
      fail(fmt::format("{} rows of logits for {} sequences", logitRows, appends.size()));
    if (after.allocations != before.allocations)
      fail("a step allocated");
    if (after.prepared - before.prepared != uint64_t(isNew))
      fail(fmt::format("{} graphs were made, {} expected", after.prepared - before.prepared,
                       isNew ? 1 : 0));
    if (!isNew && after.built != before.built)
      fail("a replay built launches");
    bool isHost = engine.device().info().driver == "host";
    if (after.reads - before.reads != (isHost ? 0 : logitRows))
      fail(fmt::format("{} reads by the CPU for {} rows of logits", after.reads - before.reads,
                       logitRows));
  }

  [[noreturn]] void fail(const std::string &what) const {
    std::string batch;
    for (const Append &append : appends)
      batch +=
          fmt::format(" {}:{}+{}", append.sequence, lengths[append.sequence], append.tokens.size());
    throw Error(what, fmt::format("step {}", steps),
                "sequence:length+rows of the step are" + batch);
  }

  const Engine &engine;
  const uint32_t sequences, stepRows;
  std::mt19937_64 random;
  Session recorded, direct;
  std::vector<uint64_t> lengths;
  std::vector<int32_t> tokens;
  std::vector<Append> appends;
  std::set<Shape> shapes;
  uint32_t rowsNow = 0;
  uint64_t steps = 0, allRows = 0;
};

/// A whole decimal number of `least` or more; throws Error (usage) for anything else.
template <class T> T number(const char *name, std::string_view text, T least) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    throw Error(
        fmt::format("{} is no number for {}", text, name), "replay_over_plan",
        fmt::format("a whole number from {} to {} is needed", least, std::numeric_limits<T>::max()),
        "give such a number", ExitCode::Usage);
  return value;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4 || argc > 7) {
    fmt::print(stderr, "usage: replay_over_plan PLAN WEIGHTS STEPS [SEQUENCES [PAGES [DEVICE]]]\n");
    return 2;
  }
  try {
    uint32_t steps = number<uint32_t>("STEPS", argv[3], 1);
    uint32_t sequences = argc > 4 ? number<uint32_t>("SEQUENCES", argv[4], 1) : 256;
    constexpr uint64_t pagesEach = (longest + mostRows + 127) / 128;
    uint64_t pages = argc > 5 ? number<uint64_t>("PAGES", argv[5], 1) : sequences * pagesEach;
    Engine engine(plan::PlanFile::open(argv[1]),
                  hal::DeviceOptions{2, true, argc > 6 ? argv[6] : ""});
    engine.bindWeights(*openWeights(argv[2], engine.tables()));
    fmt::print("{}: pages of {} bytes, {} of them\n", engine.device().info().name,
               engine.tables().cache()->page_bytes(), pages);
    Twins twins(engine, sequences, pages, 5);
    auto begun = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < steps; ++i) {
      twins.step();
      std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      if ((i + 1) % 500 == 0 || i + 1 == steps)
        fmt::print("{} in {:.1f} s\n", twins.text(), took.count()), std::fflush(stdout);
    }
  } catch (const Error &error) {
    fmt::print(stderr, "{}\n", error.what());
    return int(error.code());
  }
}
