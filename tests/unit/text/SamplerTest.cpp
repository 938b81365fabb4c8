#include "runtime/sample/Sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "runtime/base/Error.h"
#include "runtime/sample/Philox.h"

namespace m3c::sample {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> logitsOf(const std::vector<double> &probabilities) {
  std::vector<float> logits;
  for (double p : probabilities)
    logits.push_back(float(std::log(p)));
  return logits;
}

std::vector<int32_t> keptIds(const std::vector<float> &logits, SamplingParameters parameters) {
  Sampler sampler;
  sampler.filter(logits, parameters, 0);
  std::vector<int32_t> ids;
  for (const auto &candidate : sampler.candidates())
    ids.push_back(candidate.id);
  return ids;
}

using Ids = std::vector<int32_t>;

// The known-answer vectors of the authors' Random123 library (kat_vectors, philox4x32 10 rounds).
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Sampler, TopPKeepsTheTokenThatCrosses) {
  EXPECT_EQ(keptIds(logitsOf({.4, .3, .2, .1}), {.topP = .8}), (Ids{0, 1, 2}));
  EXPECT_EQ(keptIds(logitsOf({.1, .2, .3, .4}), {.topP = .8}), (Ids{3, 2, 1}));
}

TEST(Sampler, TopPStopsWhereTheSumIsExact) {
  EXPECT_EQ(keptIds(logitsOf({.5, .3, .1, .1}), {.topP = .8}), (Ids{0, 1}));
  // Rounded to FP32 logits, the sum of the first two lies on either side of p.
  for (size_t parts : {7, 10, 14, 28})
    for (size_t first = 3; first < parts; ++first)
      for (size_t second = 2; second < first && first + second < parts; ++second) {
        std::vector<double> probabilities(2 + parts - first - second, 1.0 / double(parts));
        probabilities[0] = double(first) / double(parts);
        probabilities[1] = double(second) / double(parts);
        EXPECT_EQ(
            keptIds(logitsOf(probabilities), {.topP = double(first + second) / double(parts)}),
            (Ids{0, 1}))
            << first << " and " << second << " of " << parts;
      }
}

TEST(Sampler, TopPIsNeverEmptyAndOneIsOff) {
  std::vector<float> logits = logitsOf({.4, .3, .2, .1});
  EXPECT_EQ(keptIds(logits, {.topP = 1e-12}), (Ids{0}));
  EXPECT_EQ(keptIds(logits, {.topP = 1}), (Ids{0, 1, 2, 3}));
}

TEST(Sampler, TopKRenormalisesBeforeTopP) {
  std::vector<float> logits = logitsOf({.4, .3, .2, .1});
  EXPECT_EQ(keptIds(logits, {.topK = 1, .topP = .8}), (Ids{0}));
  // Of two, the first has 4/7 = 0.57.
  EXPECT_EQ(keptIds(logits, {.topK = 2, .topP = .57}), (Ids{0}));
  EXPECT_EQ(keptIds(logits, {.topK = 2, .topP = .58}), (Ids{0, 1}));
  EXPECT_EQ(keptIds(logits, {.topK = 9}), (Ids{0, 1, 2, 3}));
}

TEST(Sampler, TemperatureComesBeforeTopP) {
  // At T = 0.5 the probabilities are proportional to .16 .09 .04 .01: the first two have 0.83.
  EXPECT_EQ(keptIds(logitsOf({.4, .3, .2, .1}), {.temperature = .5, .topP = .8}), (Ids{0, 1}));
}

TEST(Sampler, TiesGoToTheLowerId) {
  std::vector<float> logits = {1, 2, 2, 2, 0};
  EXPECT_EQ(argmax(logits), 1);
  EXPECT_EQ(keptIds(logits, {.topK = 2}), (Ids{1, 2}));
  EXPECT_EQ(keptIds(logits, {.topP = .5}), (Ids{1, 2}));
  EXPECT_EQ(keptIds(logits, {.temperature = 0}), (Ids{1}));
}

// Against a plain sort on rows larger than the pieces in which the sampler sorts.
TEST(Sampler, LargeRowsAgreeWithAFullSort) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<float> logits(5000);
    for (float &logit : logits)
      logit = float(int(random() % 200)) / 64; // many ties
    double total = 0;
    std::vector<int32_t> order(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) {
      order[i] = int32_t(i);
      total += std::exp(double(logits[i]));
    }
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      float left = logits[size_t(a)], right = logits[size_t(b)];
      return left != right ? left > right : a < b;
    });
    double topP = .05 + .045 * trial, mass = 0;
    size_t count = 0;
    while (mass < (topP - 1e-6) * total)
      mass += std::exp(double(logits[size_t(order[count++])]));
    order.resize(count);
    EXPECT_EQ(keptIds(logits, {.topP = topP}), order);
  }
}

TEST(Sampler, TinyTemperaturesAreGreedyAndOthersRefused) {
  std::vector<float> logits = {0, 3, 3, 1};
  Sampler sampler;
  for (double temperature : {0.0, 1e-40, 1e-300}) {
    checkParameters({.temperature = temperature});
    for (uint64_t position = 0; position < 50; ++position)
      EXPECT_EQ(sampler.sample(logits, {.temperature = temperature}, position).id, 1);
  }
  // At 1e-5 the two equal logits share the draws and the others get none.
  int seen[4] = {};
  for (uint64_t position = 0; position < 200; ++position)
    ++seen[sampler.sample(logits, {.temperature = 1e-5}, position).id];
  EXPECT_EQ(seen[0] + seen[3], 0);
  EXPECT_GT(seen[1], 0);
  EXPECT_GT(seen[2], 0);
  for (double temperature : {double(nan), -1.0, double(infinity)})
    EXPECT_THROW(checkParameters({.temperature = temperature}), Error);
}

TEST(Sampler, TopPOutsideItsRangeIsRefused) {
  for (double topP : {0.0, -0.5, 1.0001, double(nan)}) {
    try {
      checkParameters({.topP = topP});
      FAIL() << topP;
    } catch (const Error &error) {
      EXPECT_EQ(error.where(), "top_p");
    }
  }
}

TEST(Sampler, LogitsThatAreNotNumbersNameTheirToken) {
  Sampler sampler;
  for (size_t bad : {0u, 2u, 4u})
    for (float value : {nan, infinity})
      for (double temperature : {0.0, 1.0}) {
        std::vector<float> logits = {0, 1, 2, 3, 4};
        logits[bad] = value;
        try {
          sampler.sample(logits, {.temperature = temperature}, 17);
          FAIL();
        } catch (const Error &error) {
          EXPECT_EQ(error.where(), "position 17");
          EXPECT_NE(error.why().find("token " + std::to_string(bad)), std::string::npos)
              << error.why();
        }
      }
  EXPECT_THROW(sampler.sample(std::vector<float>{nan, nan}, {}, 0), Error);
  EXPECT_THROW(sampler.sample(std::vector<float>{-infinity, -infinity}, {}, 0), Error);
  EXPECT_THROW(sampler.sample(std::vector<float>{}, {}, 0), Error);
}

TEST(Sampler, MaskedTokensAreNeverDrawn) {
  std::vector<float> logits = {-infinity, 0, -infinity, 0};
  Sampler sampler;
  for (uint64_t position = 0; position < 200; ++position) {
    SampledToken token = sampler.sample(logits, {.topK = 3, .topP = .99}, position);
    EXPECT_TRUE(token.id == 1 || token.id == 3);
    EXPECT_DOUBLE_EQ(token.logProb, std::log(.5));
  }
  EXPECT_EQ(logProbOf(logits, 0), -std::numeric_limits<double>::infinity());
}

TEST(Sampler, LogProbabilitiesAreThoseOfTheModel) {
  std::vector<float> logits = {1000, 999, 998}; // exp would overflow
  double expected = -std::log1p(std::exp(-1.0) + std::exp(-2.0));
  EXPECT_NEAR(logSumExp(logits), 1000 - expected, 1e-12);
  EXPECT_NEAR(logProbOf(logits, 0), expected, 1e-12);
  Sampler sampler; // neither temperature nor filters show in it
  EXPECT_NEAR(sampler.sample(logits, {.temperature = 0.1, .topK = 1}, 3).logProb, expected, 1e-12);
  EXPECT_NEAR(logProbOf(logits, 1), expected - 1, 1e-12);
  EXPECT_THROW(logProbOf(logits, 3), Error);
}

TEST(Sampler, ADrawDependsOnSeedAndPositionOnly) {
  std::vector<float> logits(1000);
  std::mt19937 random(1);
  for (float &logit : logits)
    logit = float(random() % 1000) / 200;
  Ids alone, interleaved, other;
  Sampler first, second;
  for (uint64_t position = 0; position < 100; ++position)
    alone.push_back(first.sample(logits, {.topP = .9, .seed = 5}, position).id);
  for (uint64_t position = 0; position < 100; ++position) {
    other.push_back(second.sample(logits, {.seed = 6}, position).id);
    interleaved.push_back(second.sample(logits, {.topP = .9, .seed = 5}, position).id);
  }
  EXPECT_EQ(alone, interleaved);
  EXPECT_NE(alone, other);
}

// Draws against the exact distribution. With n draws over k cells, χ² = Σ (observed −
// expected)²/expected has mean k − 1 and is below the 1 − 1e-6 quantile except once in a million
// seeds; that quantile is 56.5 for 15 degrees of freedom and 40.6 for 7
// (`scipy.stats.chi2.isf(1e-6, df)`). The seeds are fixed.
double chiSquare(const std::vector<double> &probabilities, const std::vector<int> &counts,
                 int draws) {
  double sum = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    double expected = probabilities[i] * draws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

TEST(Sampler, DrawsFollowTheDistribution) {
  constexpr int cells = 16, draws = 200000;
  std::vector<double> probabilities(cells);
  double total = 0;
  for (int i = 0; i < cells; ++i)
    total += probabilities[size_t(i)] = 1.0 / (1 + (i * 7) % cells);
  for (double &p : probabilities)
    p /= total;
  std::vector<float> logits = logitsOf(probabilities);
  std::vector<int> counts(cells), sorted(cells);
  Sampler sampler;
  for (int position = 0; position < draws; ++position) {
    ++counts[size_t(sampler.sample(logits, {.seed = 42}, uint64_t(position)).id)];
    // The same through the sorted path: a top-k that keeps everything but cannot be switched off.
    ++sorted[size_t(sampler.sample(logits, {.topP = 1 - 1e-9, .seed = 43}, uint64_t(position)).id)];
  }
  EXPECT_LT(chiSquare(probabilities, counts, draws), 56.5);
  EXPECT_LT(chiSquare(probabilities, sorted, draws), 56.5);
}

TEST(Sampler, FilteredDrawsFollowTheRenormalisedDistribution) {
  constexpr int draws = 100000;
  std::vector<float> logits;
  for (int i = 0; i < 64; ++i)
    logits.push_back(float((i * 37) % 64) / 16);
  std::vector<double> probabilities(8);
  std::vector<int> counts(8);
  double temperature = .7, total = 0;
  for (int rank = 0; rank < 8; ++rank)
    total += probabilities[size_t(rank)] = std::exp((63 - rank) / 16.0 / temperature);
  for (double &p : probabilities)
    p /= total;
  Sampler sampler;
  for (int position = 0; position < draws; ++position) {
    auto token = sampler.sample(logits, {.temperature = temperature, .topK = 8, .seed = 9},
                                uint64_t(position));
    int rank = 63 - (token.id * 37) % 64;
    ASSERT_LT(rank, 8);
    ++counts[size_t(rank)];
  }
  EXPECT_LT(chiSquare(probabilities, counts, draws), 40.6);
}

// Neighbouring seeds and positions must not be correlated: the pairs (u, v) fill a 4 × 4 grid
// evenly.
TEST(Philox, SeedsAndPositionsAreIndependent) {
  constexpr int draws = 100000;
  std::vector<double> even(16, 1.0 / 16);
  std::vector<int> positions(16), seeds(16);
  for (uint64_t i = 0; i < draws; ++i) {
    int first = int(philoxUniform(3, 2 * i) * 4);
    ++positions[size_t(4 * first + int(philoxUniform(3, 2 * i + 1) * 4))];
    ++seeds[size_t(4 * int(philoxUniform(2 * i, 0) * 4) + int(philoxUniform(2 * i + 1, 0) * 4))];
  }
  EXPECT_LT(chiSquare(even, positions, draws), 56.5);
  EXPECT_LT(chiSquare(even, seeds, draws), 56.5);
}

} // namespace
} // namespace m3c::sample
