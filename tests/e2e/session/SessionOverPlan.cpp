// A real plan under the conditions that a session may meet: pages in any order and beyond 4 GiB,
// unused bytes poisoned, ragged batches, chunks, decode after prefill, other thread counts. Every
// logit must be the same bit for bit (docs/numerics.md), and a decode step allocates nothing.
//
//   session_over_plan PLAN CHECKPOINT INPUT
#include "runtime/schedule/Session.h"
#include "runtime/score/ScoreFile.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

using namespace m3c;

namespace {

std::string planPath, checkpointPath, inputPath;

using Rows = std::map<size_t, std::vector<float>>; ///< logits by position

std::unique_ptr<Engine> openEngine(unsigned threads) {
  auto engine =
      std::make_unique<Engine>(plan::PlanFile::open(planPath), hal::DeviceOptions{threads, true});
  engine->bindWeights(*openWeights(checkpointPath, engine->tables()));
  return engine;
}

const Engine &engine() {
  static std::unique_ptr<Engine> two = openEngine(2);
  return *two;
}

/// Token ids of `ids.NAME` of the input.
const std::vector<int32_t> &text(const std::string &name) {
  static ScoreInput input = ScoreInput::read(inputPath, engine().tables().model()->vocab());
  for (const ScoreInput::Text &entry : input.texts)
    if (entry.name == name)
      return entry.ids;
  throw std::runtime_error("the input has no ids." + name);
}

LogitSink into(Rows &rows, size_t first = 0) {
  return [&rows, first](size_t, size_t token, std::span<const float> logits) {
    rows[first + token].assign(logits.begin(), logits.end());
  };
}

Rows run(const Engine &over, const SessionOptions &options, std::span<const int32_t> ids) {
  Session session(over, options);
  Rows rows;
  std::vector<Append> appends = {{session.create(), ids, Want::All}};
  session.run(appends, into(rows));
  return rows;
}

/// 640 tokens are 5 blocks, of which a sparse layer of this model keeps 4.
const Rows &expected() {
  static Rows rows = run(engine(), {.pages = 5}, text("640"));
  return rows;
}

void expectSame(const Rows &got, const Rows &wanted, const char *what) {
  for (const auto &[position, row] : got) {
    const std::vector<float> &other = wanted.at(position);
    ASSERT_EQ(row.size(), other.size());
    ASSERT_EQ(std::memcmp(row.data(), other.data(), row.size() * sizeof(float)), 0)
        << what << ", position " << position;
  }
}

} // namespace

TEST(SessionOverPlan, PagesInAnyOrderWithPoisonBetween) {
  for (uint64_t seed : {1, 2})
    expectSame(run(engine(), {.pages = 9, .shuffleSeed = seed, .poison = true}, text("640")),
               expected(), "shuffled and poisoned");
}

TEST(SessionOverPlan, PagesBeyondFourGibibytes) {
  // Virtual memory; only the pages that are used get real memory. Of 5 pages in random places the
  // odds that all lie below 4 GiB are 1 in 2^5 at most; this seed has some above.
  uint64_t pages = (uint64_t(8) << 30) / engine().tables().cache()->page_bytes();
  expectSame(run(engine(), {.pages = pages, .shuffleSeed = 7}, text("640")), expected(),
             "far pages");
}

TEST(SessionOverPlan, ChunksAndThreads) {
  for (uint32_t chunk : {7u, 128u})
    expectSame(run(engine(), {.pages = 5, .chunk = chunk}, text("640")), expected(), "chunks");
  for (unsigned threads : {1u, 3u}) {
    std::unique_ptr<Engine> other = openEngine(threads);
    expectSame(run(*other, {.pages = 5}, text("640")), expected(), "threads");
  }
}

TEST(SessionOverPlan, RaggedBatches) {
  Session session(engine(), {.pages = 20, .maxSequences = 4, .chunk = 100, .shuffleSeed = 3});
  std::vector<std::string> names = {"640", "127", "129"};
  std::vector<Append> appends = {{session.create(), {}, Want::Last}}; // no rows
  for (const std::string &name : names)
    appends.push_back({session.create(), text(name), Want::All});
  std::vector<Rows> rows(appends.size());
  session.run(appends, [&](size_t append, size_t token, std::span<const float> logits) {
    rows[append][token].assign(logits.begin(), logits.end());
  });
  expectSame(rows[1], expected(), "in a batch");
  EXPECT_EQ(rows[1].size(), 640u);
  for (size_t i = 1; i < names.size(); ++i)
    expectSame(rows[i + 1], run(engine(), {.pages = 2}, text(names[i])), "in a batch");
}

TEST(SessionOverPlan, DecodeEqualsPrefillAndAllocatesNothing) {
  Session session(engine(), {.pages = 5, .shuffleSeed = 5, .poison = true});
  const std::vector<int32_t> &ids = text("640");
  SequenceId sequence = session.create();
  std::vector<Append> appends = {{sequence, std::span(ids).first(500), Want::Last}};
  Rows rows;
  session.run(appends, into(rows));
  rows.clear();
  hal::Counters &counters = engine().device().counters();
  uint64_t built = 0, buffers = 0, graphs = 0, reads = 0;
  for (size_t at = 500; at < ids.size(); ++at) { // crosses two block boundaries
    appends[0].tokens = std::span(ids).subspan(at, 1);
    session.run(appends, into(rows, at));
    if (at > 500) { // the first step records the graph
      EXPECT_EQ(counters.launchesBuilt, built);
      EXPECT_EQ(counters.allocations, buffers);
      EXPECT_EQ(counters.graphsPrepared, graphs);
      EXPECT_EQ(counters.hostReads, reads);
    }
    built = counters.launchesBuilt;
    buffers = counters.allocations;
    graphs = counters.graphsPrepared;
    reads = counters.hostReads;
  }
  EXPECT_EQ(rows.size(), 140u);
  expectSame(rows, expected(), "decode");
}

TEST(SessionOverPlan, APageIsReusedCleanly) {
  Session session(engine(), {.pages = 5, .maxSequences = 2});
  std::vector<Append> appends = {{session.create(), text("513"), Want::Last}};
  session.run(appends, nullptr);
  session.release(appends[0].sequence);
  Rows rows;
  appends = {{session.create(), text("640"), Want::All}};
  session.run(appends, into(rows));
  expectSame(rows, expected(), "after another sequence");
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 4)
    return 2;
  planPath = argv[1];
  checkpointPath = argv[2];
  inputPath = argv[3];
  return RUN_ALL_TESTS();
}
