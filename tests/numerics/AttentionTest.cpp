// Sparse and dense attention against the reference.
//
// Bound of a result, u = 2^-24: a product of D dims is off by at most (D/8 + 4)·u·Σ|q·k| (a chain
// of D/lanes steps, a tree over the lanes, the softmax scale); exp adds 4 u of relative error and
// each of P pages rescales once (3 u); numerator and denominator are chains of n keys. So
//   |Δo| ≤ (2·δ + 4 u + 3 P u + 2 n u)·max|v|, δ = 2 (D/8 + 4) u·scale·max|q|·max|k|,
// where max|q| and max|k| are Euclidean lengths.
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

double longest(const std::vector<double> &values, int64_t dims) {
  double best = 0;
  for (size_t i = 0; i < values.size(); i += size_t(dims)) {
    double sum = 0;
    for (size_t d = 0; d < size_t(dims); ++d)
      sum += values[i + d] * values[i + d];
    best = std::max(best, std::sqrt(sum));
  }
  return best;
}

double bound(const Scene &scene, int64_t keys) {
  const double u = 0x1p-24, dims = double(scene.spec.cache.headDim);
  // Keys and values of normal deviates are shorter than √D + 5 (rounding included), deviates
  // smaller than 6, beyond any chance.
  double length = std::sqrt(dims) + 5;
  double delta = 2 * (dims / 8 + 4) * u * scene.scale() *
                 longest(scene.query.reals, scene.spec.cache.headDim) * length;
  return (2 * delta + 4 * u + 3 * u * double(keys / 128 + 1) + 2 * u * double(keys)) * 6;
}

/// Runs the kernels and compares every row with the reference on the kernel's own selection.
std::vector<float> check(Scene &scene, const std::string &chip, int64_t rows,
                         const std::vector<std::string> &schedule = {}, unsigned threads = 2) {
  KernelProgram &built = program(scene.spec, chip, rows, schedule);
  StepInput input = scene.input();
  input.threads = threads;
  built.run(input);
  Tensor blocks;
  bool sparse = scene.spec.sparse;
  if (sparse) {
    std::span<const int32_t> ids = built.buffer<int32_t>("selected_blocks");
    blocks = Tensor::ofIds({scene.batch.rows(), scene.spec.cache.kvHeads, scene.spec.k});
    std::copy_n(ids.begin(), blocks.ids.size(), blocks.ids.begin());
  }
  Tensor expected = scene.attention(sparse ? &blocks : nullptr);
  std::span<const float> found = built.buffer<float>("attention");
  int64_t keys = sparse ? scene.spec.k * 128 : scene.batch.blocks() * 128;
  double tolerance = bound(scene, keys);
  for (size_t i = 0; i < expected.reals.size(); ++i)
    if (!(std::fabs(double(found[i]) - expected.reals[i]) <= tolerance)) {
      ADD_FAILURE() << chip << ": element " << i << " of row " << int64_t(i) / expected.width()
                    << " is " << found[i] << ", " << expected.reals[i] << " ± " << tolerance
                    << " expected";
      break;
    }
  return {found.begin(), found.begin() + int64_t(expected.reals.size())};
}

class Attention : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Chips, Attention, testing::ValuesIn(runnableChips()), [](auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Attention, Lengths) {
  for (int32_t length : {1, 127, 128, 129, 2047, 2048, 2049, 2305}) {
    for (bool sparse : {true, false}) {
      SceneSpec spec;
      spec.sparse = sparse;
      spec.rows = {{0, length - 1}};
      Scene scene(spec);
      check(scene, GetParam(), 1);
    }
  }
}

/// Three sequences in one batch: a chunk from the start, one in the middle of a long sequence, and
/// decoding rows.
std::vector<RowAt> raggedRows() {
  std::vector<RowAt> rows = chunkOf(0, 0, 21);
  for (const RowAt &row : chunkOf(1, 2300, 12))
    rows.push_back(row);
  rows.push_back({2, 300});
  rows.push_back({3, 127});
  return rows;
}

TEST_P(Attention, DecodeAndPrefillAgreeBitForBit) {
  for (bool sparse : {true, false}) {
    SceneSpec spec;
    spec.sparse = sparse;
    spec.rows = raggedRows();
    Scene scene(spec);
    std::vector<float> tiled = check(scene, GetParam(), 64);
    std::vector<float> single =
        check(scene, GetParam(), 64, {"attention.rows=1", "index_score.rows=1"});
    std::vector<float> odd =
        check(scene, GetParam(), 64, {"attention.rows=5", "index_score.rows=3"}, 1);
    EXPECT_EQ(tiled, single);
    EXPECT_EQ(tiled, odd);
  }
}

} // namespace
