// Block scores and block choice against the reference.
//
// A score of D dims in F32 is off by at most (D/8 + 3)·u·|q|·|k|, u = 2^-24: a chain of D/lanes
// steps and a tree over the lanes; the maximum is exact.
#include "runtime/base/Error.h"
#include "tests/numerics/PlantedFaults.h"
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <bit>
#include <cmath>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

double bound(const Scene &scene) {
  double dims = double(scene.spec.cache.indexDim), length = std::sqrt(dims) + 5;
  return (dims / 8 + 3) * 0x1p-24 * length * length;
}

/// Compares the choice of every row and head with the reference. A block may differ where its score
/// lies within two bounds of the last chosen one; such blocks are counted.
int compare(Scene &scene, KernelProgram &built, const std::string &chip = "") {
  // Named numerics of one target: keys that are not rounded to the cache's grid.
  SceneSpec spec = scene.spec;
  spec.cache.e4m3Grid &= chip != "sm_107a";
  Scene exact(spec);
  exact.batch = scene.batch;
  exact.indexQuery = scene.indexQuery;
  Tensor scores = exact.scores(), expected = scene.selection(scores);
  std::span<const int32_t> found = built.buffer<int32_t>("selected_blocks");
  std::span<const float> kernelScores = built.buffer<float>("block_scores");
  int64_t k = scene.spec.k, blocks = scores.shape[2], exceptions = 0;
  int64_t stride = int64_t(std::bit_ceil(uint64_t(blocks))), lists = expected.elements() / k;
  for (int64_t list = 0; list < lists; ++list) {
    const double *row = scores.reals.data() + list * blocks;
    for (int64_t b = 0; b < blocks && row[b] != -INFINITY; ++b)
      EXPECT_LE(std::fabs(double(kernelScores[size_t(list * stride + b)]) - row[b]), bound(scene))
          << "block " << b << " of list " << list;
    const int32_t *want = expected.ids.data() + list * k, *have = found.data() + list * k;
    double last = INFINITY;
    for (int64_t i = 0; i < k && want[i] >= 0; ++i)
      last = std::min(last, row[want[i]]);
    for (int64_t i = 0; i < k; ++i) {
      if (std::find(want, want + k, have[i]) != want + k)
        continue;
      ++exceptions;
      EXPECT_LE(std::fabs(row[have[i]] - last), 2 * bound(scene)) << "list " << list;
    }
    EXPECT_TRUE(std::is_sorted(have, std::find(have, have + k, -1)));
    EXPECT_EQ(std::count(have, have + k, -1), std::count(want, want + k, -1));
  }
  return int(exceptions);
}

SceneSpec small(std::vector<RowAt> rows) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.attend = false;
  spec.rows = std::move(rows);
  return spec;
}

TEST(IndexTopk, LengthsInOneBatch) {
  std::vector<RowAt> rows;
  for (int32_t length : {1, 127, 128, 129, 2047, 2048, 2049, 5000})
    rows.push_back({int32_t(rows.size()), length - 1});
  for (const RowAt &row : chunkOf(7, 4100, 20)) // and a chunk within the longest sequence
    rows.push_back(row);
  SceneSpec spec = small(rows);
  Scene scene(spec);
  for (const std::string &chip : hostChips())
    for (int64_t init : {0, 2}) {
      scene.spec.init = init;
      KernelProgram &built = program(scene.spec, chip, 32);
      built.run(scene.input());
      // Scores of 39 blocks are closer than 1e-4 once in a few thousand lists.
      EXPECT_LE(compare(scene, built), 1);
    }
}

TEST(IndexTopk, CacheTypes) {
  for (auto [storage, grid] : std::vector<std::pair<std::string, bool>>{
           {"f32", false}, {"bf16", false}, {"fp8", false}, {"nvfp4", false}, {"nvfp4", true}}) {
    SceneSpec spec = small({{0, 2500}, {1, 130}});
    spec.cache.storage = storage;
    spec.cache.e4m3Grid = grid;
    Scene scene(spec);
    for (const std::string &chip : runnableChips()) {
      SCOPED_TRACE(storage + " " + chip);
      KernelProgram &built = program(spec, chip, 2);
      built.run(scene.input());
      EXPECT_LE(compare(scene, built, chip), 1);
    }
  }
}

/// Up to sixteen rows at a time: ragged, a chunk of one sequence among them, by the number of
/// heads.
TEST(IndexTopk, DecodeRowsOfTargetsThatHaveNoOther) {
  std::vector<RowAt> rows;
  for (int32_t length : {1, 127, 128, 129, 2047, 2048, 2049})
    rows.push_back({int32_t(rows.size()), length - 1});
  for (const RowAt &row : chunkOf(7, 300, 9))
    rows.push_back(row);
  for (int64_t heads : {1, 2, 3, 4}) {
    SceneSpec spec = small(rows);
    spec.cache.kvHeads = heads;
    spec.heads = 4 * heads;
    spec.k = 4;
    for (auto [bucket, kept] : std::vector<std::pair<int64_t, std::vector<size_t>>>{
             {1, {6}}, {4, {4, 0, 12}}, {8, {7, 8, 9, 10, 11, 5, 2}}, {16, {}}}) {
      Scene scene(spec);
      if (!kept.empty())
        scene.keepRows(kept);
      for (const std::string &chip : incompleteChips()) {
        SCOPED_TRACE(chip + ", bucket " + std::to_string(bucket) + ", heads " +
                     std::to_string(heads));
        KernelProgram &built = program(scene.spec, chip, bucket);
        built.run(scene.input());
        EXPECT_LE(compare(scene, built, chip), 1);
      }
    }
  }
}

/// Blocks of all rows shared out together, more rows of one sequence than a product has columns
/// among them, give the scores that tiles of rows give with parts of their own.
TEST(IndexTopk, ScoresOfAllRowsAreThoseOfTiles) {
  std::vector<RowAt> rows = {{0, 4000}, {1, 3}, {2, 900}};
  for (const RowAt &row : chunkOf(3, 1200, 11))
    rows.push_back(row);
  SceneSpec spec = small(rows);
  spec.cache.kvHeads = 4;
  spec.heads = 16;
  Scene scene(spec);
  for (const std::string &chip : incompleteChips()) {
    auto scoresWith = [&](const char *choice) {
      KernelProgram &built = program(spec, chip, 16, {choice});
      built.run(scene.input());
      std::span<const float> found = built.buffer<float>("block_scores");
      std::vector<float> scores;
      for (size_t list = 0; list < 4 * rows.size(); ++list)
        for (int32_t block = 0; block <= rows[list / 4].position / 128; ++block)
          scores.push_back(found[list * 32 + size_t(block)]); // 32 blocks of the longest row
      return scores;
    };
    EXPECT_EQ(scoresWith("index_score.all_rows=1"), scoresWith("index_score.all_rows=0")) << chip;
  }
}

/// Warps take pages in turn, and there are stages that another warp had the time before: they must
/// not be taken for filled while that one's page is still on its way.
TEST(IndexTopk, WarpsThatTakeTurnsHoweverPagesLand) {
  struct Ring {
    std::string chip;
    int64_t heads, rows;
    std::vector<std::string> schedule;
  };
  for (const Ring &ring :
       std::vector<Ring>{{"sm_100a", 1, 1, {"index_score.stages=16", "index_score.parts=1"}},
                         {"sm_107a", 2, 16, {"index_score.stages=16", "index_score.parts=1"}}}) {
    SceneSpec spec = small(chunkOf(0, 34 * 128, ring.rows));
    spec.cache.kvHeads = ring.heads;
    spec.heads = 4 * ring.heads;
    Scene scene(spec);
    SCOPED_TRACE(ring.chip);
    KernelProgram &built = program(spec, ring.chip, ring.rows, ring.schedule);
    StepInput input = scene.input();
    input.times = 3;
    built.run(input);
    compare(scene, built, ring.chip);
  }
}

/// The choice of blocks reads what the launch before wrote.
TEST(IndexTopk, LaunchesThatDoNotWaitForTheOneBeforeAreFound) {
  SceneSpec spec = small({{0, 2500}});
  Scene scene(spec);
  for (const char *chip : {"sm_90a", "sm_100a", "sm_107a"}) {
    KernelProgram built(Scene::module(spec), chip, 1);
    built.run(scene.input());
    plant(built, chip, "block_topk", {"LaunchBeforeNotWaitedFor", "awaitLaunch\\(\\);", ""});
    try {
      built.run(scene.input());
      ADD_FAILURE() << "nothing was found on " << chip;
    } catch (const m3c::Error &error) {
      EXPECT_NE(error.why().find("which launches write, before its thread has waited"),
                std::string::npos)
          << error.what();
      EXPECT_NE(error.where().find("tile."), std::string::npos) << error.what();
    }
  }
}

TEST(IndexTopk, EqualScoresGoToTheLowestIds) {
  SceneSpec spec = small({{0, 40 * 128 - 1}});
  Scene scene(spec);
  const std::vector<double> same(size_t(spec.cache.indexDim), 1.0);
  for (int64_t p = 0; p < 40 * 128; ++p)
    scene.write(Lane::IndexKey, 0, p, 0, same);
  for (const std::string &chip : runnableChips()) {
    KernelProgram &built = program(spec, chip, 2);
    built.run(scene.input());
    std::span<const int32_t> found = built.buffer<int32_t>("selected_blocks");
    for (int32_t i = 0; i < 15; ++i)
      EXPECT_EQ(found[size_t(i)], i);
    EXPECT_EQ(found[15], 39);
  }
}

TEST(IndexTopk, NanScoresComeLast) {
  SceneSpec spec = small({{0, 20 * 128 + 5}});
  spec.cache.storage = "fp8";
  Scene scene(spec);
  const std::vector<double> bad(size_t(spec.cache.indexDim), std::nan(""));
  for (int64_t block = 0; block < 20; block += 2) // ten blocks of 21, one key each
    scene.write(Lane::IndexKey, 0, block * 128 + 77, 0, bad);
  for (const std::string &chip : runnableChips()) {
    KernelProgram &built = program(spec, chip, 2);
    built.run(scene.input());
    std::span<const int32_t> found = built.buffer<int32_t>("selected_blocks");
    // The eleven numbers, then the lowest NaN blocks.
    const std::vector<int32_t> expected = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 17, 19, 20};
    EXPECT_EQ(std::vector<int32_t>(found.begin(), found.begin() + 16), expected) << chip;
  }
}

/// The selection alone, on scores full of ties and special values: exact equality.
TEST(IndexTopk, SelectionIsExact) {
  std::mt19937 random(7);
  SceneSpec spec = small({{0, 0}});
  for (int64_t k : {1, 4, 16, 33})
    for (const std::string &chip : runnableChips()) {
      spec.k = k;
      KernelProgram &built = program(spec, chip, 1);
      for (int64_t blocks : {1, 15, 16, 17, 1000, 8192})
        for (int levels : {2, 1 << 24}) {
          Batch batch;
          batch.tokenIds = {0};
          batch.positions = {int32_t(blocks * 128 - 1 - int64_t(random() % 128))};
          batch.sequenceOfRow = {0};
          batch.pageTable = {std::vector<int32_t>(size_t(blocks), 0)};
          int64_t stride = int64_t(std::bit_ceil(uint64_t(blocks)));
          Tensor scores = Tensor::ofReals({1, 2, blocks});
          StepInput input;
          input.batch = &batch;
          input.only = "block_topk";
          std::vector<float> &given = input.given["block_scores"];
          given.assign(size_t(2 * stride), std::nanf(""));
          for (int64_t i = 0; i < 2 * blocks; ++i) {
            float score = float(int(random() % unsigned(levels)) - levels / 2);
            unsigned special = random() % 64;
            score = special == 0   ? std::nanf("")
                    : special == 1 ? -INFINITY
                    : special == 2 ? -0.0f
                                   : score;
            scores.reals[size_t(i)] = double(score);
            given[size_t(i / blocks * stride + i % blocks)] = score;
          }
          built.run(input);
          Tensor expected = blockTopk(scores, batch, k, 0, 1);
          std::span<const int32_t> found = built.buffer<int32_t>("selected_blocks");
          EXPECT_TRUE(std::equal(expected.ids.begin(), expected.ids.end(), found.begin()))
              << chip << " k " << k << " blocks " << blocks << " levels " << levels;
        }
    }
}

} // namespace
