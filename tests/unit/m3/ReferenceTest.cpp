// The arithmetic of the reference interpreter against values worked out by hand and against plain
// formulas. The whole interpreter is judged by outside goldens in tests/e2e.
#include "compiler/interpreter/Kernels.h"
#include "runtime/base/Error.h"

#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <random>

using namespace m3c::interpreter;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor tensor(std::vector<int64_t> shape, std::vector<double> values) {
  return {std::move(shape), std::move(values), {}};
}

Tensor randomTensor(std::vector<int64_t> shape, unsigned seed) {
  Tensor t = Tensor::ofReals(std::move(shape));
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  for (double &value : t.reals)
    value = normal(generator);
  return t;
}

Matrix randomMatrix(int64_t rows, int64_t cols, unsigned seed, double multiplier = 1) {
  Tensor t = randomTensor({rows, cols}, seed);
  return {rows, cols, multiplier, {t.reals.begin(), t.reals.end()}};
}

/// `count` rows of sequence 0 that end at position `last`, pages shuffled.
Batch rowsEndingAt(int64_t last, int64_t count) {
  Batch batch;
  for (int64_t p = last - count + 1; p <= last; ++p) {
    batch.tokenIds.push_back(0);
    batch.positions.push_back(int32_t(p));
    batch.sequenceOfRow.push_back(0);
  }
  batch.pageTable.emplace_back();
  for (int64_t b = 0; b <= last / 128; ++b)
    batch.pageTable[0].push_back(int32_t((b * 5 + 2) % 64));
  return batch;
}

TEST(Rounding, nvfp4TestVectorOfTheModelsDescription) {
  // docs/numerics.md: scale byte 0x38 and these codes; the 16 values hit every midpoint.
  double values[16] = {-6, -5,  -3.5, -2.5, -1.75, -1.25, -.75, -.25,
                       0,  .25, .75,  1.25, 1.75,  2.5,   3.5,  5};
  Nvfp4Group group = encodeNvfp4(values);
  EXPECT_EQ(group.scale, 0x38);
  const uint8_t bytes[8] = {0xEF, 0xCE, 0xAC, 0x0A, 0x00, 0x22, 0x44, 0x66};
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(group.codes[2 * i] | group.codes[2 * i + 1] << 4, bytes[i]) << i;
}

TEST(Rounding, e4m3StepGoesThroughBf16) {
  // 1.0634765625 lies above the E4M3 midpoint 1.0625 but BF16 rounds it to the midpoint first, and
  // ties go to even: 1.0. Without the BF16 step the result would be 1.125.
  std::vector<double> values = {1.0634765625, 500, -1000, 3};
  roundValues(Step::E4m3, values);
  EXPECT_EQ(values, (std::vector<double>{1.0, 448, -448, 3}));
}

TEST(Rounding, productOfCodeAndScaleIsRoundedOnTheE4m3Grid) {
  // amax 6.5: scale E4M3(6.5/6) = 1.125, code of 6.5 is 6, product 6.75: midway between the E4M3
  // values 6.5 (mantissa 5) and 7 (mantissa 6); the even one is 7.
  std::vector<double> exact(16, 0.0), e4m3(16, 0.0);
  exact[0] = e4m3[0] = 6.5;
  roundValues(Step::Nvfp4, exact);
  roundValues(Step::Nvfp4E4m3, e4m3);
  EXPECT_EQ(exact[0], 6.75);
  EXPECT_EQ(e4m3[0], 7);
}

TEST(Rounding, smallestScaleTimesSmallestCodeIsATieToZero) {
  // docs/numerics.md: scale 1/512, code 1 is 2^-10, half of the smallest E4M3 value.
  std::vector<double> values(16, 0.0);
  values[3] = 0x1p-10;
  roundValues(Step::Nvfp4E4m3, values);
  EXPECT_EQ(values[3], 0);
  values[3] = 0x1p-10;
  roundValues(Step::Nvfp4, values);
  EXPECT_EQ(values[3], 0x1p-10);
}

TEST(Rounding, mxfp8ScaleIsRoundedUpSoThatNothingSaturates) {
  // amax 449: floor(log2(449/448)) = 0 would clip to 448; the exponent is 1. 449/2 = 224.5 -> 224.
  std::vector<double> values(32, 0.0);
  values[0] = 449;
  values[1] = -0.4;
  roundValues(Step::Mxfp8, values);
  EXPECT_EQ(values[0], 448);
  EXPECT_EQ(values[1], -0.40625); // -0.2 on the E4M3 grid (step 1/64) is -0.203125
  std::vector<double> zeros(32, 0.0);
  roundValues(Step::Mxfp8, zeros);
  EXPECT_EQ(zeros, std::vector<double>(32, 0.0));
}

TEST(Linear, productsOfAnyShapeAndThreadCountAgree) {
  for (int64_t rows : {1, 3, 4, 8, 9, 17})
    for (int64_t outputs : {1, 5, 64, 67, 130}) {
      Tensor x = randomTensor({rows, 37}, 1);
      Matrix w = randomMatrix(outputs, 37, 2, 0.5);
      Tensor y = multiply(x, w, 1), y2 = multiply(x, w, 3);
      EXPECT_EQ(y.reals, y2.reals);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t n = 0; n < outputs; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < 37; ++k)
            sum += x.row(r)[k] * double(w.values[size_t(n * 37 + k)]);
          // Same products in the same order: equal up to the contraction of multiply and add.
          ASSERT_NEAR(y.row(r)[n], 0.5 * sum, 1e-12) << rows << "x" << outputs;
        }
    }
}

TEST(Rows, normAddsOneToTheStoredWeight) {
  Matrix weight{2, 1, 1, {0.5f, -0.25f}};
  Tensor y = gemmaNorm(tensor({1, 2}, {3, 4}), weight, 0.0);
  double factor = 1 / std::sqrt(12.5);
  EXPECT_DOUBLE_EQ(y.reals[0], 3 * factor * 1.5);
  EXPECT_DOUBLE_EQ(y.reals[1], 4 * factor * 0.75);
}

TEST(Rows, rotationLeavesTheRestOfTheHead) {
  Batch batch = rowsEndingAt(2, 1);
  Tensor table = ropeTable(batch, 100.0, 2); // one frequency: 1; angle 2
  Tensor y = rotate(tensor({1, 8}, {1, 0, 5, 6, 0, 1, 7, 8}), table, 2);
  EXPECT_DOUBLE_EQ(y.reals[0], std::cos(2.0));
  EXPECT_DOUBLE_EQ(y.reals[1], std::sin(2.0));
  EXPECT_DOUBLE_EQ(y.reals[4], -std::sin(2.0));
  EXPECT_DOUBLE_EQ(y.reals[5], std::cos(2.0));
  EXPECT_EQ(y.reals[2], 5);
  EXPECT_EQ(y.reals[7], 8);
}

TEST(Rows, frequencyAndAngleAreF32Values) {
  Batch batch = rowsEndingAt(1000003, 1);
  Tensor table = ropeTable(batch, 5e6, 64);
  // The reciprocal of the F32 power; at i = 9 it differs from one rounding of 5e6^(-18/64).
  float frequency = 1.0f / float(std::pow(5e6, 18.0 / 64));
  ASSERT_NE(frequency, float(std::pow(5e6, -18.0 / 64)));
  float angle = float(1000003) * frequency;
  EXPECT_DOUBLE_EQ(table.row(0)[9], std::cos(double(angle)));
  EXPECT_DOUBLE_EQ(table.row(0)[32 + 9], std::sin(double(angle)));
  // The rounding of the angle matters at this position.
  EXPECT_GT(std::fabs(std::cos(double(angle)) - std::cos(1000003 * std::pow(5e6, -2.0 * 9 / 64))),
            1e-5);
}

TEST(Rows, swigluClampsTheGateFromAboveOnly) {
  Tensor y = swiglu(tensor({1, 3}, {9, -9, 1}), tensor({1, 3}, {-9, 9, 0.5}), {1.702, 7});
  auto expected = [](double g, double u) { return (u + 1) * g / (1 + std::exp(-1.702 * g)); };
  EXPECT_DOUBLE_EQ(y.reals[0], expected(7, -7));
  EXPECT_DOUBLE_EQ(y.reals[1], expected(-9, 7));
  EXPECT_DOUBLE_EQ(y.reals[2], expected(1, 0.5));
}

TEST(Rows, samplingFollowsTheCumulativeProbability) {
  Tensor logits = tensor({3, 3}, {0, std::log(2.0), 0, 0, std::log(2.0), 0, 1, 5, 2});
  Tensor ids = sample(logits, tensor({3}, {1, 1, 0}), tensor({3}, {0.249, 0.26, 0.99}));
  EXPECT_EQ(ids.ids, (std::vector<int32_t>{0, 1, 1})); // probabilities 1/4, 1/2, 1/4; then argmax
}

TEST(Selection, orderIsScoreThenIdAndNanIsLast) {
  Batch batch = rowsEndingAt(5 * 128 + 7, 1); // own block 5
  Tensor scores = tensor({1, 1, 6}, {nan, 3, 1, 3, 3, -infinity});
  EXPECT_EQ(blockTopk(scores, batch, 3, 0, 1).ids, (std::vector<int32_t>{1, 3, 5}));
  EXPECT_EQ(blockTopk(scores, batch, 2, 1, 1).ids, (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(blockTopk(scores, batch, 8, 0, 1).ids,
            (std::vector<int32_t>{0, 1, 2, 3, 4, 5, -1, -1}));
}

TEST(Selection, blocksAfterTheRowsOwnAreNeverChosen) {
  Batch batch = rowsEndingAt(130, 1);
  Tensor scores = tensor({1, 2, 4}, {1, 2, 9, 9, 2, 1, 9, 9});
  EXPECT_EQ(blockTopk(scores, batch, 1, 0, 1).ids, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(blockTopk(scores, batch, 3, 0, 1).ids, (std::vector<int32_t>{0, 1, -1, 0, 1, -1}));
}

TEST(Selection, biasChoosesExpertsButDoesNotWeighThem) {
  Matrix router{4, 1, 1, {0.0f, 1.0f, 2.0f, -1.0f}}, bias{4, 1, 1, {0.0f, 0.0f, -9.0f, 0.5f}};
  Routing routing = route(tensor({1, 1}, {1}), router, &bias, 2, 2.0, 1);
  EXPECT_EQ(routing.ids.ids, (std::vector<int32_t>{1, 3}));
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  double total = sigmoid(1) + sigmoid(-1);
  EXPECT_DOUBLE_EQ(routing.weights.reals[0], 2 * sigmoid(1) / total);
  EXPECT_DOUBLE_EQ(routing.weights.reals[1], 2 * sigmoid(-1) / total);
  // Ties: the lower id.
  Matrix equal{4, 1, 1, {1.0f, 1.0f, 1.0f, 1.0f}};
  EXPECT_EQ(route(tensor({1, 1}, {1}), equal, nullptr, 2, 1, 1).ids.ids,
            (std::vector<int32_t>{0, 1}));
}

/// A cache of one layer, 2 KV heads of 16, filled with random tokens of positions 0..last.
struct FilledCache {
  Tensor keys, values, indexKeys;
  PagedCache cache{CacheShape{1, 2, 16, 16, Step::None}};
  explicit FilledCache(int64_t last)
      : keys(randomTensor({last + 1, 32}, 3)), values(randomTensor({last + 1, 32}, 4)),
        indexKeys(randomTensor({last + 1, 16}, 5)) {
    writeCache(cache, rowsEndingAt(last, last + 1), 0, keys, values, &indexKeys);
  }
};

TEST(Cache, indexScoreIsTheMaximumOverVisibleKeys) {
  FilledCache filled(300);
  Batch batch = rowsEndingAt(260, 1); // keys 261..300 are in the page but later than the row
  Tensor query = randomTensor({1, 32}, 6);
  Tensor scores = indexScores(query, filled.cache, batch, 0, 1);
  ASSERT_EQ(scores.shape, (std::vector<int64_t>{1, 2, 3}));
  for (int64_t g = 0; g < 2; ++g)
    for (int64_t b = 0; b < 3; ++b) {
      double best = -infinity;
      for (int64_t j = b * 128; j <= std::min<int64_t>(b * 128 + 127, 260); ++j) {
        double product = 0;
        for (int64_t d = 0; d < 16; ++d)
          product += query.row(0)[g * 16 + d] * filled.indexKeys.row(j)[d];
        best = std::max(best, product);
      }
      EXPECT_NEAR(scores.reals[size_t(g * 3 + b)], best, 1e-12);
    }
}

TEST(Cache, attentionSeesSelectedBlocksUpToTheRow) {
  FilledCache filled(300);
  Batch batch = rowsEndingAt(290, 1);
  Tensor query = randomTensor({1, 64}, 7); // 4 query heads, 2 per KV head
  Tensor blocks{{1, 2, 2}, {}, {0, 2, 1, 2}};
  Tensor out = attention(query, filled.cache, batch, 0, 0.25, &blocks, 2);
  for (int64_t h = 0; h < 4; ++h) {
    int64_t kv = h / 2;
    double total = 0, expected[16] = {};
    for (int64_t j = 0; j <= 290; ++j) {
      if (j / 128 == (kv == 0 ? 1 : 0))
        continue;
      double product = 0;
      for (int64_t d = 0; d < 16; ++d)
        product += query.row(0)[h * 16 + d] * filled.keys.row(j)[kv * 16 + d];
      double p = std::exp(0.25 * product);
      total += p;
      for (int64_t d = 0; d < 16; ++d)
        expected[d] += p * filled.values.row(j)[kv * 16 + d];
    }
    for (int64_t d = 0; d < 16; ++d)
      EXPECT_NEAR(out.row(0)[h * 16 + d], expected[d] / total, 1e-12);
  }
  Tensor all{{1, 2, 3}, {}, {0, 1, 2, 0, 1, 2}};
  EXPECT_EQ(attention(query, filled.cache, batch, 0, 0.25, &all, 1).reals,
            attention(query, filled.cache, batch, 0, 0.25, nullptr, 1).reals);
}

TEST(Cache, readingAPageThatWasNeverWrittenIsAnError) {
  FilledCache filled(10);
  Batch batch = rowsEndingAt(300, 1);
  EXPECT_THROW(indexScores(randomTensor({1, 32}, 8), filled.cache, batch, 0, 1), m3c::Error);
}

TEST(Cache, storedValuesAreRounded) {
  PagedCache cache(CacheShape{1, 1, 16, 0, Step::E4m3});
  Batch batch = rowsEndingAt(0, 1);
  Tensor keys = randomTensor({1, 16}, 9), values = randomTensor({1, 16}, 10);
  writeCache(cache, batch, 0, keys, values, nullptr);
  roundValues(Step::E4m3, keys.reals);
  const double *read = cache.read(Lane::Key, 0, batch.pageTable[0][0], 0);
  EXPECT_TRUE(std::equal(keys.reals.begin(), keys.reals.end(), read));
}

} // namespace
