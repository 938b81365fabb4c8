// Kernels that multiply in tensor memory, against the reference.
//
// Scores are sums of exact products, each instruction's sums cut to 25 bits: within
// (D + 1) · 2^-24 · Σ |q k|; attention is within attentionBound (Scene.h).
#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "tests/numerics/PlantedFaults.h"
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <bit>
#include <cmath>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

const std::string chip = "sm_100a";

double lengthOf(const SceneSpec &spec) { return std::sqrt(double(spec.cache.headDim)) + 5; }

SceneSpec small(std::vector<RowAt> rows, bool sparse, bool bf16 = false) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.heads = 8;
  spec.sparse = sparse;
  spec.bf16 = bf16;
  spec.rows = std::move(rows);
  return spec;
}

std::vector<float> resultOf(const KernelProgram &built, const Scene &scene) {
  std::vector<float> values;
  auto count = std::ptrdiff_t(scene.query.elements());
  if (!scene.spec.bf16) {
    auto from = built.buffer<float>("attention");
    values.assign(from.begin(), from.begin() + count);
    return values;
  }
  for (uint16_t code : built.buffer<uint16_t>("attention").first(size_t(count)))
    values.push_back(std::bit_cast<float>(uint32_t(code) << 16));
  return values;
}

/// Runs the kernels and compares attention with the reference on the kernel's own selection.
std::vector<float> check(Scene &scene, int64_t rows,
                         const std::vector<std::string> &schedule = {}) {
  KernelProgram &built = program(scene.spec, chip, rows, schedule);
  built.run(scene.input());
  Tensor blocks = Tensor::ofIds({scene.batch.rows(), scene.spec.cache.kvHeads, scene.spec.k});
  if (scene.spec.sparse) {
    auto chosen = built.buffer<int32_t>("selected_blocks");
    blocks.ids.assign(chosen.begin(), chosen.begin() + blocks.elements());
  }
  std::vector<float> found = resultOf(built, scene);
  Tensor expected = scene.attention(scene.spec.sparse ? &blocks : nullptr);
  int64_t keys = (scene.spec.sparse ? scene.spec.k : scene.batch.blocks()) * 128;
  double tolerance = attentionBound(scene, keys);
  for (size_t i = 0; i < expected.reals.size(); ++i)
    if (!(std::fabs(double(found[i]) - expected.reals[i]) <= tolerance)) {
      ADD_FAILURE() << "bucket " << rows << ": element " << int64_t(i) % expected.width()
                    << " of row " << int64_t(i) / expected.width() << " is " << found[i] << ", "
                    << expected.reals[i] << " ± " << tolerance << " expected";
      break;
    }
  return found;
}

TEST(Tensor, AttentionOfLengths) {
  for (bool sparse : {true, false})
    for (bool bf16 : {false, true}) {
      Scene scene(small(rowsOfLengths({1, 127, 128, 129, 1000, 2049}), sparse, bf16));
      check(scene, 8);
      scene.keepRows({5});
      check(scene, 1);
    }
}

TEST(Tensor, AttentionOfHeads) {
  struct Sizes {
    int64_t heads, kvHeads;
  };
  for (Sizes sizes : {Sizes{16, 1}, {3, 3}, {32, 2}}) {
    SceneSpec spec = small({{0, 700}, {1, 40}, {0, 300}}, true);
    spec.heads = sizes.heads;
    spec.cache.kvHeads = sizes.kvHeads;
    spec.k = 3;
    Scene scene(spec);
    check(scene, 4);
  }
}

/// Keys along the first query of their head, whose scores grow by more than 2^8 from page to page,
/// so that the running maximum is raised and what was summed before is rescaled in tensor memory;
/// or that fall. They are up to 2.25 times as long as queries are.
void makeScores(Scene &scene, bool grow) {
  const SceneSpec &spec = scene.spec;
  const int64_t group = spec.heads / spec.cache.kvHeads, dims = spec.cache.headDim;
  for (size_t row = 0; row < spec.rows.size(); ++row)
    for (int64_t p = 0; p <= spec.rows[row].position; ++p)
      for (int64_t h = 0; h < spec.cache.kvHeads; ++h) {
        const double *query = scene.query.row(int64_t(row)) + h * group * dims;
        double size = 0.75 * double(grow ? p / 128 : 3 - p / 128) * (p % 2 ? 1 : 0.9);
        std::vector<double> key(query, query + dims);
        for (double &x : key)
          x *= size;
        scene.write(Lane::Key, spec.rows[row].sequence, p, h, key);
      }
}

SceneSpec upToFourPages() { return small({{0, 500}, {1, 300}}, false); }
const std::vector<std::string> onePart = {"attention.parts=1"};

TEST(Tensor, MaximaThatGrow) {
  for (bool grow : {true, false}) {
    Scene scene(upToFourPages());
    makeScores(scene, grow);
    KernelProgram &built = program(scene.spec, chip, 2, onePart);
    StepInput input = scene.input();
    input.times = 3;
    built.run(input);
    double length = lengthOf(scene.spec), dims = double(scene.spec.cache.headDim);
    double scores = 2 * (dims + 1) * 0x1p-24 * scene.scale() * length * 2.25 * length;
    double tolerance = (2 * scores + 2 * (0x1p-11 + 0x1p-21) + 2 * 512 * 0x1p-24) * 6;
    std::vector<float> found = resultOf(built, scene);
    Tensor expected = scene.attention(nullptr);
    for (size_t i = 0; i < expected.reals.size(); ++i)
      ASSERT_NEAR(found[i], expected.reals[i], tolerance) << (grow ? "growing" : "falling");
  }
}

/// Parts add up in their order, so their number is what a result depends on.
TEST(Tensor, DepthOfRingsDoesNotChangeAttention) {
  for (bool sparse : {true, false}) {
    Scene scene(small({{0, 1500}, {1, 200}}, sparse));
    for (const char *parts : {"1", "2", "5"}) {
      std::string cut = std::string("attention.parts=") + parts;
      std::vector<float> first =
          check(scene, 2, {cut, "attention.stages=1", "attention.tensor_stages=2"});
      EXPECT_EQ(first, check(scene, 2, {cut, "attention.stages=3", "attention.tensor_stages=4"}));
    }
  }
}

/// The warp that multiplies and the one that loads are then in one role of four warps.
TEST(Tensor, RegistersOfRolesChangeNothing) {
  const std::vector<std::string> budgets = {
      "attention.soften_registers=216",      "attention.dequantise_registers=216",
      "attention.feed_registers=72",         "index_score.score_registers=96",
      "index_score.dequantise_registers=88", "index_score.feed_registers=56"};
  for (bool sparse : {true, false}) {
    Scene scene(small({{0, 1500}, {1, 200}}, sparse));
    EXPECT_EQ(check(scene, 2), check(scene, 2, budgets));
  }
}

/// Codes times scales by way of FP16, for compilers that lack the instruction: the same E4M3
/// values.
TEST(Tensor, ProductsByWayOfFp16AreTheSame) {
  Scene scene(small({{0, 1500}, {1, 200}, {2, 40}}, true));
  const std::vector<float> multiplied = check(scene, 4);
  EXPECT_EQ(check(scene, 4, {"attention.product=2", "index_score.product=2"}), multiplied);
  // As for compilers that cannot multiply codes.
  EXPECT_EQ(check(scene, 4,
                  {"index_score.product=2", "index_score.score_registers=80",
                   "index_score.dequantise_registers=88", "index_score.feed_registers=72"}),
            multiplied);
}

/// Values are all 1: any key too many or too few of the 0xff bytes around shows.
TEST(Tensor, UnseenKeysCountNothing) {
  SceneSpec spec = small(rowsOfLengths({1, 127, 129, 133, 400}), true);
  Scene scene(spec);
  const std::vector<double> ones(size_t(spec.cache.headDim), 1.0);
  for (const RowAt &row : spec.rows)
    for (int32_t p = 0; p <= row.position; ++p)
      for (int64_t h = 0; h < spec.cache.kvHeads; ++h)
        scene.write(Lane::Value, row.sequence, p, h, ones);
  KernelProgram &built = program(scene.spec, chip, 8);
  built.run(scene.input());
  for (float value : resultOf(built, scene))
    ASSERT_NEAR(value, 1.0, 2 * 512 * 0x1p-24); // two sums of at most 512 keys
}

/// Scores of every row and head against the reference, and the choice by them.
void checkScores(Scene &scene, int64_t rows, const std::vector<std::string> &schedule = {}) {
  KernelProgram &built = program(scene.spec, chip, rows, schedule);
  built.run(scene.input());
  Tensor scores = scene.scores();
  std::span<const float> found = built.buffer<float>("block_scores");
  double dims = double(scene.spec.cache.indexDim), length = std::sqrt(dims) + 5;
  double tolerance = (dims + 1) * 0x1p-24 * length * length;
  int64_t blocks = scores.shape[2], stride = int64_t(std::bit_ceil(uint64_t(blocks)));
  for (int64_t list = 0; list < scores.elements() / blocks; ++list)
    for (int64_t b = 0; b < blocks; ++b) {
      double expected = scores.reals[size_t(list * blocks + b)];
      if (expected != -INFINITY)
        ASSERT_NEAR(found[size_t(list * stride + b)], expected, tolerance)
            << "block " << b << " of list " << list;
    }
}

TEST(Tensor, IndexScores) {
  for (int64_t heads : {2, 4})
    for (bool bf16 : {false, true}) {
      SceneSpec spec = small(rowsOfLengths({1, 127, 128, 129, 2047}), true, bf16);
      spec.cache.kvHeads = heads;
      spec.heads = heads;
      spec.attend = false;
      for (const RowAt &row : chunkOf(4, 1000, 9)) // within the longest sequence
        spec.rows.push_back(row);
      Scene scene(spec);
      for (const char *columns : {"16", "32"})
        checkScores(scene, 16, {std::string("index_score.columns=") + columns});
      checkScores(scene, 16,
                  {"index_score.stages=1", "index_score.tensor_stages=1", "index_score.parts=1"});
      scene.keepRows({9});
      checkScores(scene, 1);
    }
}

/// Two work items of a cluster multiply two pages at a time: ragged lengths with odd and even
/// numbers of pages, one to sixteen rows, each with fewer and more parts than there are pages.
TEST(Tensor, IndexScoresOfPairs) {
  for (int64_t heads : {2, 4}) {
    SceneSpec spec = small(rowsOfLengths({1, 127, 128, 129, 400, 1281, 2047}), true);
    spec.cache.kvHeads = heads;
    spec.heads = heads;
    spec.attend = false;
    for (const RowAt &row : chunkOf(6, 1020, 9)) // within the longest sequence
      spec.rows.push_back(row);
    Scene all(spec);
    for (const char *columns : {"16", "32"})
      for (const char *parts : {"1", "5", "24"})
        checkScores(all, 16,
                    {"index_score.pair=1", std::string("index_score.columns=") + columns,
                     std::string("index_score.parts=") + parts});
    for (auto [bucket, kept] : std::vector<std::pair<int64_t, std::vector<size_t>>>{
             {1, {5}}, {1, {0}}, {4, {6, 1, 3}}, {8, {7, 8, 9, 4, 2}}}) {
      Scene scene(spec);
      scene.keepRows(kept);
      checkScores(scene, bucket, {"index_score.pair=1"});
    }
  }
}

/// Pairs add the same products in the same order.
TEST(Tensor, PairsGiveTheSameScores) {
  SceneSpec spec = small(rowsOfLengths({700, 129, 400}), true);
  spec.attend = false;
  Scene scene(spec);
  auto scoresOf = [&](const std::vector<std::string> &schedule) {
    KernelProgram &built = program(scene.spec, chip, 4, schedule);
    built.run(scene.input());
    auto found = built.buffer<float>("block_scores");
    std::vector<float> scores;
    for (int64_t list = 0; list < 6; ++list)
      for (int64_t block = 0; block <= spec.rows[size_t(list / 2)].position / 128; ++block)
        scores.push_back(found[size_t(list * 8 + block)]);
    return scores;
  };
  EXPECT_EQ(scoresOf({}), scoresOf({"index_score.pair=1"}));
}

//===- Planted faults -------------------------------------------------------------------------===//

constexpr HeaderFault headerFaults[] = {
    {"WrongSwizzleOfQueries", "tensor.h", "(run ^ row % 8) * 16", "run * 16"},
    {"WrongSwizzleInADescriptor", "tensor.h", "16, 256, Swizzle::Bytes32",
     "16, 256, Swizzle::Bytes128"},
    {"WrongStrideInADescriptor", "tensor.h", "16384, 1024, Swizzle", "16384, 2048, Swizzle"},
    {"OperandTakenForItsTranspose", "tensor.h", "3u << 15", "1u << 15"},
    {"ScalesOfValuesTokenByToken", "tensor.h", "scales + token / 4 * 4 + i", "scales + token"},
    {"UnseenValuesAreRead", "tensor.h", "token < tokens ?", "true ?"},
    {"RingTooShallow", gatesTooShallow.file, gatesTooShallow.from, gatesTooShallow.to},
    wrongPhase,
    missingFenceBeforeASignal,
    missingFenceAfterAWait,
    {"MissingProxyFence", "tensor.h", "fenceForProducts();\n  return rounded;", "return rounded;"},
    {"SumsOverKeys", "tensor.h", "sums, keys + 8 * i", "sums - 8, keys + 8 * i"},
    {"RowsOfTheNextWarp", "tensor.h", "warpId() % 4 * warpLanes) << 16",
     "(warpId() + 1) % 4 * warpLanes) << 16"},
};

/// The same of products of two work items.
constexpr HeaderFault pairFaults[] = {
    {"SignalsStayInTheWorkItem", "tensor.h", "arriveAtRank(barrier, 0)", "arriveAt(barrier)"},
    {"ProductsTellOneOfTwo", "tensor.h", "pairCommit(barrier, 3)", "pairCommit(barrier, 1)"},
    {"ProductsTellTooMany", "tensor.h", "pairCommit(barrier, 3)", "pairCommit(barrier, 7)"},
    {"HalfOfTheRows", "tensor.h", "instructionOf<N, 256>(false)", "instructionOf<N>(false)"},
    {"HalfOfTheColumns", "tensor.h", "instructionOf<N, 256>(false)",
     "instructionOf<N / 2 < 16 ? 32 : N / 2, 256>(false)"},
    {"AllocatedWithoutTheOther", "tensor.h", "pairAllocate(word, Columns);",
     "tensorAllocate(word, Columns);"},
    {"BarriersThatTheOtherDoesNotKnow", "tensor.h",
     "clusterBarrier();\n  tensorFenceAfter();\n  return",
     "barrier();\n  tensorFenceAfter();\n  return"},
    {"EndsBeforeTheOther", "tensor.h",
     "freePairTensorMemory(u32 address) {\n  tensorFenceBefore();\n  clusterBarrier();",
     "freePairTensorMemory(u32 address) {\n  tensorFenceBefore();"},
    {"QueriesNotFenced", "tensor.h", "  fenceForProducts();\n  warpBarrier();", "  warpBarrier();"},
};

class PairKernels : public testing::TestWithParam<HeaderFault> {};

TEST_P(PairKernels, WithAFaultAreFound) {
  SceneSpec spec = small({{0, 700}, {0, 701}}, true);
  spec.attend = false;
  Scene scene(spec);
  KernelProgram built(Scene::module(spec), chip, 2, {"index_score.pair=1", "index_score.parts=2"});
  plant(built, chip, GetParam());
  try {
    built.run(scene.input());
  } catch (const m3c::Error &error) {
    EXPECT_NE(error.summary().find("fails in the emulator"), std::string::npos) << error.what();
    return;
  }
  Tensor scores = scene.scores();
  double length = lengthOf(spec), worst = 0;
  for (size_t list = 0; list < 4; ++list)
    for (size_t block = 0; block < 6; ++block) {
      double distance = std::fabs(double(built.buffer<float>("block_scores")[list * 8 + block]) -
                                  scores.reals[list * 6 + block]);
      worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
    }
  EXPECT_GT(worst, 129 * 0x1p-24 * length * length);
}

INSTANTIATE_TEST_SUITE_P(Planted, PairKernels, testing::ValuesIn(pairFaults),
                         [](const testing::TestParamInfo<HeaderFault> &info) {
                           return info.param.name;
                         });

/// Only where a maximum grows is anything stored that products add to.
TEST(TensorRescaling, ThatIsNotWaitedForIsFound) {
  Scene scene(upToFourPages());
  makeScores(scene, true);
  KernelProgram built(Scene::module(scene.spec), chip, 2, onePart);
  plant(built, chip,
        HeaderFault{"RescaledSumsNotWaitedFor", "tensor.h", "  waitTensorStores();\n}\n\n/// Gates",
                    "}\n\n/// Gates"});
  EXPECT_THROW(built.run(scene.input()), m3c::Error);
}

class TensorKernels : public testing::TestWithParam<HeaderFault> {};

TEST_P(TensorKernels, WithAFaultAreFound) {
  SceneSpec spec = small({{0, 700}}, false);
  spec.cache.kvHeads = 1;
  Scene scene(spec);
  KernelProgram built(Scene::module(spec), chip, 1, {"attention.parts=2"});
  plant(built, chip, GetParam());
  try {
    built.run(scene.input());
  } catch (const m3c::Error &error) {
    EXPECT_NE(error.summary().find("fails in the emulator"), std::string::npos) << error.what();
    return;
  }
  std::vector<float> found = resultOf(built, scene);
  Tensor expected = scene.attention(nullptr);
  double worst = 0;
  for (size_t i = 0; i < expected.reals.size(); ++i) {
    double distance = std::fabs(double(found[i]) - expected.reals[i]);
    worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
  }
  EXPECT_GT(worst, attentionBound(scene, 768));
}

INSTANTIATE_TEST_SUITE_P(Planted, TensorKernels, testing::ValuesIn(headerFaults),
                         [](const testing::TestParamInfo<HeaderFault> &info) {
                           return info.param.name;
                         });

} // namespace
