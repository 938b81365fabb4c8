// Sessions over the toy model, whose logits depend on every token before: packing, paging,
// chunking, graphs, traces and every refusal.
#include "runtime/schedule/Session.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/cuda/CudaDriver.h"
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/drivers/null/NullDevice.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

using namespace m3c;

namespace {
std::atomic<uint64_t> heapAllocations{0};
} // namespace

// Counts every allocation of this program, to show that a step makes none.
void *operator new(size_t size) {
  heapAllocations++;
  if (void *memory = std::malloc(size))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

/// Scales of the toy model: 1 + v / 64.
class ScaleSource final : public WeightSource {
public:
  explicit ScaleSource(float poison = 0) : poison(poison) {}
  void check(const plan::WeightPiece &) const override {}
  void read(const plan::WeightPiece &, uint64_t, std::span<std::byte> to) const override {
    for (uint32_t v = 0; v < test::toyVocab; ++v) {
      float value = 1 + float(v) / 64 + poison;
      std::memcpy(to.data() + 4 * v, &value, 4);
    }
  }

private:
  float poison;
};

std::unique_ptr<Engine> toyEngine(const test::ToyOptions &options = {}, unsigned threads = 2,
                                  float poison = 0) {
  auto engine = std::make_unique<Engine>(
      plan::PlanFile::fromBytes(test::toyPlan(options).bytes(), "toy.m3plan"),
      hal::DeviceOptions{threads, true});
  engine->bindWeights(ScaleSource(poison));
  return engine;
}

std::vector<int32_t> tokensOf(uint32_t seed, size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(int32_t((seed = seed * 1664525 + 1013904223) >> 8) % int32_t(test::toyVocab));
  for (int32_t &token : tokens)
    token = std::abs(token);
  return tokens;
}

void expectLogits(const std::vector<int32_t> &history, std::span<const float> row,
                  const std::string &what) {
  ASSERT_EQ(row.size(), test::toyVocab);
  for (uint32_t v = 0; v < test::toyVocab; ++v)
    ASSERT_EQ(row[v], test::toyLogit(history, v)) << what << ", token id " << v;
}

std::string problem(const std::function<void()> &action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST(Session, EveryChunkAndBatchGivesTheSameLogits) {
  std::unique_ptr<Engine> engine = toyEngine();
  std::vector<std::vector<int32_t>> texts;
  for (size_t length : {1, 5, 127, 128, 129, 300})
    texts.push_back(tokensOf(uint32_t(length), length));
  for (uint32_t chunk : {1u, 3u, 16u, 100u})
    for (uint32_t batch : {1u, 2u, 6u}) {
      Session session(*engine, {.pages = 32,
                                .maxSequences = batch,
                                .chunk = chunk,
                                .shuffleSeed = chunk,
                                .poison = true});
      for (size_t first = 0; first < texts.size(); first += batch) {
        std::vector<Append> appends;
        for (size_t i = first; i < std::min(texts.size(), first + batch); ++i)
          appends.push_back({session.create(), texts[i], Want::All});
        std::map<std::pair<size_t, size_t>, int> seen;
        session.run(appends, [&](size_t append, size_t token, std::span<const float> row) {
          const std::vector<int32_t> &text = texts[first + append];
          ++seen[{append, token}];
          expectLogits({text.begin(), text.begin() + ptrdiff_t(token) + 1}, row,
                       fmt::format("chunk {}, batch {}, text {}, position {}", chunk, batch,
                                   first + append, token));
        });
        size_t expected = 0;
        for (const Append &append : appends) {
          expected += append.tokens.size();
          EXPECT_EQ(session.length(append.sequence), append.tokens.size());
          session.release(append.sequence);
        }
        EXPECT_EQ(seen.size(), expected);
      }
      EXPECT_EQ(session.freePages(), 32u);
    }
}

TEST(Session, PrefillAndDecodeShareAStep) {
  std::unique_ptr<Engine> engine = toyEngine();
  Session session(*engine, {.pages = 32, .maxSequences = 3, .chunk = 8});
  std::vector<int32_t> a = tokensOf(1, 20), b = tokensOf(2, 1), more = tokensOf(3, 40);
  SequenceId first = session.create(), second = session.create(), third = session.create();
  session.run(std::vector<Append>{{first, a, Want::None}}, nullptr);
  uint64_t before = session.stepsRun();
  std::vector<Append> appends = {
      {first, b, Want::Last}, {second, more, Want::Last}, {third, {}, Want::Last}};
  int rows = 0;
  session.run(appends, [&](size_t append, size_t token, std::span<const float> row) {
    ++rows;
    std::vector<int32_t> history = append == 0 ? a : more;
    if (append == 0)
      history.push_back(b[0]);
    EXPECT_EQ(token, appends[append].tokens.size() - 1);
    expectLogits(history, row, "mixed");
  });
  EXPECT_EQ(rows, 2);
  EXPECT_EQ(session.stepsRun() - before, 5u); // 40 tokens in chunks of 8, the single one beside
  EXPECT_EQ(session.length(third), 0u);
}

TEST(Session, AStepBuildsAllocatesAndReadsNothing) {
  std::unique_ptr<Engine> engine = toyEngine();
  Session session(*engine, {.pages = 16, .maxSequences = 2});
  SequenceId id = session.create();
  std::vector<int32_t> token = {7};
  std::vector<Append> appends = {{id, token, Want::Last}};
  float sum = 0;
  LogitSink sink = [&](size_t, size_t, std::span<const float> row) { sum += row[0]; };
  session.run(appends, sink); // records the graph
  hal::Counters &counters = engine->device().counters();
  uint64_t built = counters.launchesBuilt, buffers = counters.allocations,
           graphs = counters.graphsPrepared, reads = counters.hostReads, replays = counters.replays,
           heap = heapAllocations;
  for (int i = 0; i < 300; ++i) // crosses page boundaries
    session.run(appends, sink);
  EXPECT_EQ(heapAllocations - heap, 0u);
  EXPECT_EQ(counters.launchesBuilt, built);
  EXPECT_EQ(counters.allocations, buffers);
  EXPECT_EQ(counters.graphsPrepared, graphs);
  EXPECT_EQ(counters.hostReads, reads);
  EXPECT_EQ(counters.replays - replays, 300u);
}

TEST(Session, TracesGiveEveryRowOnce) {
  std::unique_ptr<Engine> engine = toyEngine();
  Session session(*engine, {.pages = 16, .maxSequences = 2, .chunk = 5});
  std::vector<int32_t> text = tokensOf(9, 200), other = tokensOf(4, 3);
  std::vector<Append> appends = {{session.create(), text, Want::None},
                                 {session.create(), other, Want::None}};
  std::map<std::pair<size_t, size_t>, int> blocks, experts;
  session.run(appends, nullptr, [&](const TraceRow &row) {
    int32_t values[2];
    ASSERT_EQ(row.bytes.size(), 8u);
    std::memcpy(values, row.bytes.data(), 8);
    if (row.kind == plan::TapKind::Blocks) {
      ++blocks[{row.append, row.token}];
      EXPECT_EQ(values[0], int32_t(row.token / 128));
      EXPECT_EQ(values[1], -1);
    } else {
      ++experts[{row.append, row.token}];
      EXPECT_EQ(values[0], appends[row.append].tokens[row.token] % 3);
    }
  });
  EXPECT_EQ(blocks.size(), 203u);
  EXPECT_EQ(experts.size(), 203u);
  for (auto &[at, count] : blocks)
    EXPECT_EQ(count, 1);
}

TEST(Session, RefusesWhatDoesNotFit) {
  std::unique_ptr<Engine> engine = toyEngine({.maxPositions = 500});
  Session session(*engine, {.pages = 8, .maxSequences = 2});
  SequenceId id = session.create();
  std::vector<int32_t> text = tokensOf(1, 501);
  std::string tooLong = problem([&] { session.run(std::vector<Append>{{id, text}}, nullptr); });
  EXPECT_TRUE(holds(tooLong, "longest that fits is 500 tokens (the model's context)")) << tooLong;
  EXPECT_EQ(session.length(id), 0u);
  text.pop_back();
  session.run(std::vector<Append>{{id, text}}, nullptr);
  std::vector<int32_t> one = {1};
  EXPECT_TRUE(
      holds(problem([&] { session.run(std::vector<Append>{{id, one}}, nullptr); }), "501 tokens"));

  SequenceId other = session.create();
  text.resize(400);
  session.run(std::vector<Append>{{other, text}}, nullptr);
  SequenceId none = 0;
  EXPECT_TRUE(holds(problem([&] { none = session.create(); }), "made for 2"));
  session.release(id);
  id = session.create();
  std::vector<Append> twice = {{id, one}, {id, one}};
  EXPECT_TRUE(holds(problem([&] { session.run(twice, nullptr); }), "named twice"));
  EXPECT_TRUE(holds(problem([&] { session.run(std::vector<Append>{{77, one}}, nullptr); }),
                    "no sequence 77"));

  Session small(*engine, {.pages = 2, .maxSequences = 2});
  EXPECT_EQ(small.longestSequence(), 256u);
  text = tokensOf(1, 200);
  std::vector<Append> both = {{small.create(), text}, {small.create(), text}};
  EXPECT_TRUE(holds(problem([&] { small.run(both, nullptr); }), "KV cache is full"));
  text = tokensOf(1, 257);
  EXPECT_TRUE(
      holds(problem([&] { small.run(std::vector<Append>{{0, text}}, nullptr); }), "--kv-pages"));
}

TEST(Session, TokenIdsOutOfRangeAreNamed) {
  std::unique_ptr<Engine> engine = toyEngine();
  Session session(*engine, {.pages = 8});
  SequenceId id = session.create();
  for (int32_t bad : {-1, int32_t(test::toyVocab), INT32_MAX}) {
    std::vector<int32_t> text = {1, 2, bad};
    std::string fault = problem([&] { session.run(std::vector<Append>{{id, text}}, nullptr); });
    EXPECT_TRUE(holds(fault, fmt::format("token id {} is out of range", bad))) << fault;
    EXPECT_TRUE(holds(fault, "0 to 60")) << fault;
  }
}

TEST(Session, LogitsThatAreNotFiniteNameTheStep) {
  std::unique_ptr<Engine> engine = toyEngine({}, 1, NAN);
  Session session(*engine, {.pages = 8});
  std::vector<int32_t> text = {1, 2, 3};
  SequenceId id = session.create();
  std::string fault = problem([&] { session.run(std::vector<Append>{{id, text}}, nullptr); });
  EXPECT_TRUE(holds(fault, "step 1")) << fault;
  EXPECT_TRUE(holds(fault, "position 2")) << fault;
}

TEST(Session, MemoryIsForeseen) {
  std::unique_ptr<Engine> engine = toyEngine();
  SessionOptions options = {.pages = 16};
  Session::checkMemory(*engine, options);
  uint64_t before = engine->device().counters().allocatedBytes;
  uint64_t weights = Weights::bytesNeeded(engine->tables(), engine->target());
  Ledger ledger = Session::ledger(*engine, options);
  Session session(*engine, options);
  EXPECT_EQ(engine->device().counters().allocatedBytes - before,
            ledger.total() - engine->codeBytes() - weights);
  EXPECT_TRUE(holds(ledger.text(), "KV cache"));

  plan::PlanWriter writer;
  std::string symbols = "toy_insert toy_taps toy_logits";
  writer.setTables(test::toyTables(writer.addSection(plan::SectionKind::Code, symbols)));
  writer.setManifest("{}");
  Engine tight(plan::PlanFile::fromBytes(writer.bytes(), "toy"),
               std::make_unique<hal::NullDevice>(std::vector<std::string>{}, 56'000));
  std::string fault =
      problem([&] { Session::checkMemory(tight, {.pages = 1000, .maxSequences = 4}); });
  EXPECT_TRUE(holds(fault, "not enough memory")) << fault;
  // The cache that it names fits, a page more does not.
  size_t at = fault.find("--kv-pages ");
  ASSERT_NE(at, fault.npos) << fault;
  uint64_t pages = std::strtoull(fault.c_str() + at + 11, nullptr, 10);
  EXPECT_GT(pages, 20u);
  EXPECT_EQ(problem([&] { Session::checkMemory(tight, {.pages = pages, .maxSequences = 4}); }), "");
  EXPECT_NE(problem([&] { Session::checkMemory(tight, {.pages = pages + 1, .maxSequences = 4}); }),
            "");
  EXPECT_TRUE(holds(
      fault, fmt::format("one sequence of {} tokens or 4 of {}", pages * 128, pages / 4 * 128)))
      << fault;
  Engine tiny(plan::PlanFile::fromBytes(writer.bytes(), "toy"),
              std::make_unique<hal::NullDevice>(std::vector<std::string>{}, 500));
  fault = problem([&] { Session::checkMemory(tiny, {.pages = 10}); });
  EXPECT_TRUE(holds(fault, "no cache fits beside the weights")) << fault;
}

// The toy's pages are small; a plan of a real kind of cache names the smaller ones.
TEST(Session, MemoryThatIsMissingNamesSmallerCaches) {
  plan::PlanWriter writer;
  std::string symbols = "toy_insert toy_taps toy_logits";
  plan::TablesT tables = test::toyTables(writer.addSection(plan::SectionKind::Code, symbols));
  tables.cache->slot_bytes = 16384;
  tables.cache->page_bytes = 3 * 16384;
  writer.setTables(tables);
  writer.setManifest("{}");
  Engine engine(plan::PlanFile::fromBytes(writer.bytes(), "toy"),
                std::make_unique<hal::NullDevice>(std::vector<std::string>{}, 3 * 16384 * 10));
  std::string fault = problem([&] { Session::checkMemory(engine, {.pages = 1000}); });
  EXPECT_TRUE(holds(fault, "--kv-pages 9, ") || holds(fault, "--kv-pages 9;")) << fault;
  EXPECT_TRUE(holds(fault, fmt::format("{} tokens with --kv nvfp4", 9 * 16384 / 9216 * 128)))
      << fault;
  EXPECT_FALSE(holds(fault, "--kv bf16")) << fault;
}

TEST(Session, ReplaysAsRecorded) {
  plan::PlanWriter writer;
  std::string symbols = "toy_insert toy_taps toy_logits";
  writer.setTables(test::toyTables(writer.addSection(plan::SectionKind::Code, symbols)));
  writer.setManifest("{}");
  auto device = std::make_unique<hal::NullDevice>();
  hal::NullDevice &null = *device;
  Engine engine(plan::PlanFile::fromBytes(writer.bytes(), "toy"), std::move(device));
  engine.bindWeights(ScaleSource());
  Session session(engine, {.pages = 16, .maxSequences = 2});
  std::vector<int32_t> text = {1, 2, 3};
  SequenceId id = session.create();
  null.clearRecords();
  session.run(std::vector<Append>{{id, text, Want::None}}, nullptr);
  std::vector<std::string> launches;
  for (const hal::NullRecord &record : null.records())
    if (record.what == "launch") {
      launches.push_back(record.label);
      EXPECT_EQ(record.grid.x, 4u); // the bucket of 4 rows
    }
  EXPECT_EQ(launches, (std::vector<std::string>{"layers.0.insert", "layers.0.route", "head"}));
  null.failAt("layers.0.route");
  EXPECT_TRUE(
      holds(problem([&] { session.run(std::vector<Append>{{id, text, Want::None}}, nullptr); }),
            "layers.0.route"));
}

TEST(Engine, KernelWithoutCodeForTheTargetIsNamed) {
  plan::PlanWriter writer;
  plan::TablesT tables = test::toyTables(writer.addSection(plan::SectionKind::Code, "x"));
  tables.kernels[1]->objects[0]->chip = "other";
  writer.setTables(tables);
  writer.setManifest("{}");
  std::string fault = problem([&] {
    Engine engine(plan::PlanFile::fromBytes(writer.bytes(), "toy"),
                  std::make_unique<hal::NullDevice>());
  });
  EXPECT_FALSE(fault.empty());
}

namespace {

class SourceWithConfig final : public WeightSource {
public:
  explicit SourceWithConfig(std::string digest) : digest(std::move(digest)) {}
  void check(const plan::WeightPiece &) const override {}
  void read(const plan::WeightPiece &, uint64_t, std::span<std::byte>) const override {}
  std::string configDigest() const override { return digest; }

private:
  std::string digest;
};

} // namespace

TEST(Engine, CheckpointWithAnotherConfigIsRefused) {
  auto bind = [](const char *manifest, const char *digest) {
    plan::PlanWriter writer = test::toyPlan();
    writer.setManifest(manifest);
    Engine engine(plan::PlanFile::fromBytes(writer.bytes(), "toy.m3plan"),
                  hal::DeviceOptions{1, true});
    return problem([&] { engine.bindWeights(SourceWithConfig(digest)); });
  };
  const char *manifest = R"({"checkpoint": {"config": "0123"}})";
  EXPECT_EQ(bind(manifest, "0123"), "");
  EXPECT_EQ(bind(manifest, ""), ""); // synthetic
  EXPECT_EQ(bind("{}", "4567"), "");
  EXPECT_EQ(bind("not json", "4567"), "");
  std::string fault = bind(manifest, "4567");
  EXPECT_TRUE(holds(fault, "another config.json")) << fault;
  EXPECT_TRUE(holds(fault, "0123") && holds(fault, "4567")) << fault;
}

namespace {

/// The toy model on a device whose memory the CPU cannot reach: the CUDA driver over a library
/// without a GPU.
constexpr const char *toyText =
    ".version 8.0\n.entry toy_insert(\n.entry toy_taps(\n.entry toy_logits(\n";

std::unique_ptr<Engine> fakeGpuEngine(const test::ToyOptions &options) {
  auto engine = std::make_unique<Engine>(
      plan::PlanFile::fromBytes(test::toyPlan(options).bytes(), "toy.m3plan"),
      hal::createCudaDriver(M3C_FAKE_CUDA)->open(0, {}));
  engine->bindWeights(ScaleSource());
  return engine;
}

std::unique_ptr<Engine> fakeGpuEngine() {
  test::ToyOptions options;
  options.code = toyText;
  return fakeGpuEngine(options);
}

} // namespace

TEST(SessionOnAGpu, StepArraysTravelInTheGraph) {
  std::unique_ptr<Engine> engine = fakeGpuEngine();
  Session session(*engine, {.pages = 24, .maxSequences = 3, .chunk = 8, .shuffleSeed = 5});
  std::vector<std::vector<int32_t>> histories = {tokensOf(1, 140), tokensOf(2, 3), tokensOf(3, 20)};
  std::vector<SequenceId> ids = {session.create(), session.create(), session.create()};
  std::vector<Append> appends;
  for (size_t i = 0; i < 3; ++i)
    appends.push_back({ids[i], histories[i], Want::Last});
  LogitSink check = [&](size_t append, size_t, std::span<const float> row) {
    expectLogits(histories[append], row, fmt::format("sequence {}", append));
  };
  session.run(appends, check);
  hal::Counters &counters = engine->device().counters();
  std::vector<std::vector<int32_t>> next(3);
  for (int step = 0; step < 30; ++step) {
    // Sequences come in another order each time, so rows of the page table change places.
    appends.clear();
    std::vector<size_t> order = {size_t(step % 3), size_t((step + 1) % 3), size_t((step + 2) % 3)};
    for (size_t i : order) {
      next[i] = {int32_t(step + 7 * int(i)) % int32_t(test::toyVocab)};
      histories[i].push_back(next[i][0]);
      appends.push_back({ids[i], next[i], Want::Last});
    }
    uint64_t built = counters.launchesBuilt, buffers = counters.allocations,
             graphs = counters.graphsPrepared, reads = counters.hostReads;
    session.run(appends, [&](size_t append, size_t, std::span<const float> row) {
      expectLogits(histories[order[append]], row, fmt::format("step {}", step));
    });
    if (step == 0)
      continue; // records the graph of three rows
    EXPECT_EQ(counters.launchesBuilt, built);
    EXPECT_EQ(counters.allocations, buffers);
    EXPECT_EQ(counters.graphsPrepared, graphs);
    EXPECT_EQ(counters.hostReads, reads + 3); // the logits that were asked for
  }
}

TEST(SessionOnAGpu, TimesAreThoseOfTheLaunches) {
  std::unique_ptr<Engine> engine = fakeGpuEngine();
  Session session(*engine, {.pages = 4});
  size_t calls = 0;
  session.setStepTimes([&](uint32_t bucket, std::span<const double> seconds, const StepPlan &) {
    EXPECT_EQ(seconds.size(), engine->bucket(bucket).launches()->size());
    ++calls;
  });
  std::vector<int32_t> token = {7};
  Append append{session.create(), token, Want::Last};
  session.run({&append, 1}, nullptr);
  EXPECT_EQ(calls, 1u);
}

// A plan for another chip, with its sources: they are built for this one.
TEST(SessionOnAGpu, APlanWithoutCodeForItIsBuiltFromItsSource) {
  test::ToyOptions options;
  options.code = "code of another chip";
  options.features = {"sm_80a"};
  options.source = toyText;
  options.sourceFeatures = {"sm_75", "sm_90"};
  setenv("XDG_CACHE_HOME", testing::TempDir().c_str(), 1); // what is built stays there
  setenv("M3C_NVRTC", M3C_FAKE_NVRTC, 1);
  std::unique_ptr<Engine> engine = fakeGpuEngine(options);
  EXPECT_EQ(engine->codeBytes(), std::string_view(toyText).size());
  Session session(*engine, {.pages = 4});
  std::vector<int32_t> tokens = tokensOf(5, 9);
  Append append{session.create(), tokens, Want::Last};
  session.run({&append, 1}, [&](size_t, size_t, std::span<const float> row) {
    expectLogits(tokens, row, "from source");
  });

  auto messageOf = [&] {
    try {
      fakeGpuEngine(options);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  setenv("M3C_NVRTC", "/absent", 1);
  EXPECT_NE(messageOf().find("no compiler for kernel"), std::string::npos) << messageOf();
  unsetenv("M3C_NVRTC");
  options.sourceFeatures = {"sm_75"};
  EXPECT_NE(messageOf().find("has no code for this device"), std::string::npos) << messageOf();
}
