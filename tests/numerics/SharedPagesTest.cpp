// Attention in which a page that several rows have chosen is dequantised once, against the
// reference on the kernel's own selection.
//
// Where the pages are cut and in which order they are added changes results within the bound
// (attentionBound, Scene.h) only.
#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "tests/numerics/PlantedFaults.h"
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

const std::string chip = "gfx950";

SceneSpec small(std::vector<RowAt> rows, int64_t k = 4) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.heads = 8;
  spec.k = k;
  spec.rows = std::move(rows);
  return spec;
}

Tensor selectionOf(const KernelProgram &built, const Scene &scene) {
  Tensor blocks = Tensor::ofIds({scene.batch.rows(), scene.spec.cache.kvHeads, scene.spec.k});
  auto chosen = built.buffer<int32_t>("selected_blocks");
  blocks.ids.assign(chosen.begin(), chosen.begin() + blocks.elements());
  return blocks;
}

/// How far the result is from the reference, in bounds; a NaN is infinitely far.
double distance(const KernelProgram &built, const Scene &scene) {
  Tensor blocks = selectionOf(built, scene);
  Tensor expected = scene.attention(&blocks);
  auto found = built.buffer<float>("attention");
  double worst = 0, tolerance = attentionBound(scene, scene.spec.k * 128);
  for (size_t i = 0; i < expected.reals.size(); ++i) {
    double away = std::fabs(double(found[i]) - expected.reals[i]) / tolerance;
    worst = std::isnan(away) ? INFINITY : std::max(worst, away);
  }
  return worst;
}

std::vector<float> check(Scene &scene, int64_t rows,
                         const std::vector<std::string> &schedule = {}) {
  KernelProgram &built = program(scene.spec, chip, rows, schedule);
  bool shared = false;
  for (const auto &[name, kernel] : built.kernels)
    shared |= name.find("shared_rows") != std::string::npos;
  EXPECT_TRUE(shared);
  built.run(scene.input());
  EXPECT_LE(distance(built, scene), 1) << "bucket " << rows;
  auto found = built.buffer<float>("attention");
  return {found.begin(), found.begin() + scene.query.elements()};
}

/// Sequences' first blocks become those of sequence 0.
void shareBeginning(Scene &scene, int64_t blocks) {
  for (std::vector<int32_t> &pages : scene.batch.pageTable)
    std::copy_n(scene.batch.pageTable[0].begin(), blocks, pages.begin());
}

/// All rows choose the same pages; rows of a page see different numbers of its keys.
TEST(SharedPages, RowsOfOneSequence) {
  for (auto [first, count, bucket] : std::vector<std::tuple<int32_t, int32_t, int64_t>>{
           {0, 2, 2}, {126, 4, 4}, {380, 7, 8}, {31, 3, 8}, {120, 16, 16}}) {
    Scene scene(small(chunkOf(0, first, count)));
    check(scene, bucket);
  }
}

/// Of more pages than a row may choose, each row chooses its own.
TEST(SharedPages, RowsThatShareSomePages) {
  std::vector<RowAt> rows = chunkOf(0, 1200, 7);
  rows.push_back({0, 700});
  for (const RowAt &row : chunkOf(1, 1000, 3))
    rows.push_back(row);
  Scene scene(small(rows));
  check(scene, 16);
  scene.keepRows({0, 1, 2, 3, 4, 5, 6, 7});
  KernelProgram &built = program(scene.spec, chip, 8);
  check(scene, 8);
  Tensor blocks = selectionOf(built, scene);
  std::set<int32_t> all(blocks.ids.begin(), blocks.ids.begin() + blocks.elements());
  EXPECT_GT(all.size(), size_t(scene.spec.k + 2)); // pages of one row alone among them
}

TEST(SharedPages, LengthsWithoutACommonPage) {
  Scene scene(small(rowsOfLengths({1, 127, 128, 129, 2047, 2048, 2049}), 16));
  check(scene, 8);
  scene.keepRows({6, 0, 3});
  check(scene, 4);
}

/// Requests with a common beginning have the same physical pages there.
TEST(SharedPages, RequestsWithACommonBeginning) {
  Scene scene(small({{0, 500}, {1, 400}, {2, 700}, {2, 701}, {3, 384}, {0, 501}}));
  shareBeginning(scene, 3);
  check(scene, 8);
  scene.keepRows({0, 2});
  check(scene, 2);
}

TEST(SharedPages, Heads) {
  for (auto [heads, kvHeads] : std::vector<std::pair<int64_t, int64_t>>{{16, 1}, {3, 3}}) {
    SceneSpec spec = small(chunkOf(0, 300, 3), 2);
    spec.heads = heads;
    spec.cache.kvHeads = kvHeads;
    Scene scene(spec);
    check(scene, 4);
  }
}

/// Up to 32 pages of a row, and lists that do not fill the last lanes.
TEST(SharedPages, Choices) {
  for (int64_t k : {3, 32}) {
    std::vector<RowAt> rows = chunkOf(0, 640, 3);
    rows.push_back({1, 100});
    Scene scene(small(rows, k));
    check(scene, 4);
  }
}

TEST(SharedPages, NoRows) {
  Scene scene(small({}));
  KernelProgram &built = program(scene.spec, chip, 8);
  StepInput input = scene.input();
  input.blocks = 4;
  built.run(input);
  for (float value : built.buffer<float>("attention"))
    ASSERT_TRUE(std::isnan(value)) << "a row of padding was written";
}

/// The order of additions depends on the parts and on which rows are together, not on the ring.
TEST(SharedPages, Schedules) {
  std::vector<RowAt> rows = chunkOf(0, 900, 5);
  rows.push_back({1, 300});
  Scene scene(small(rows));
  for (auto [tile, parts] :
       std::vector<std::pair<const char *, const char *>>{{"1", "1"}, {"3", "8"}}) {
    std::vector<std::string> cut = {std::string("attention.shared_rows=") + tile,
                                    std::string("attention.parts=") + parts};
    std::vector<float> first;
    for (const char *stages : {"3", "6"}) {
      std::vector<std::string> schedule = cut;
      schedule.push_back(std::string("attention.stages=") + stages);
      std::vector<float> found = check(scene, 8, schedule);
      EXPECT_TRUE(first.empty() || found == first);
      first = found;
    }
  }
  check(scene, 8, {"attention.shared_rows=4", "attention.consumers=8"});
}

/// A value of a later token does not touch the rows before it, though they share its page.
TEST(SharedPages, LaterTokensDoNotMatter) {
  Scene scene(small(chunkOf(0, 130, 4)));
  const std::vector<double> large(size_t(scene.spec.cache.headDim), 1000.0);
  std::vector<float> before = check(scene, 4);
  for (int64_t head = 0; head < scene.spec.cache.kvHeads; ++head)
    scene.write(Lane::Value, 0, 133, head, large);
  KernelProgram &built = program(scene.spec, chip, 4);
  built.run(scene.input());
  auto after = built.buffer<float>("attention");
  size_t three = size_t(3 * scene.query.width());
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + std::ptrdiff_t(three), after.begin()));
  EXPECT_NE(before[three], after[three]);
}

/// The kernel that dequantises a page for each row gives nearly the same.
TEST(SharedPages, BothFormsAgree) {
  std::vector<RowAt> rows = chunkOf(0, 700, 5);
  rows.push_back({1, 127});
  Scene scene(small(rows));
  std::vector<float> shared = check(scene, 8);
  KernelProgram &apart = program(scene.spec, chip, 8, {"attention.shared=0"});
  for (const auto &[name, kernel] : apart.kernels)
    EXPECT_EQ(name.find("shared_rows"), std::string::npos);
  apart.run(scene.input());
  EXPECT_LE(distance(apart, scene), 1);
  // Each is within the bound of the same reference.
  const double bound = 2 * attentionBound(scene, scene.spec.k * 128);
  auto alone = apart.buffer<float>("attention");
  for (size_t i = 0; i < shared.size(); ++i)
    ASSERT_NEAR(shared[i], alone[i], bound) << "element " << i;
}

//===- FP8 ------------------------------------------------------------------------------------===//

/// Queries are on no grid: both products are of FP16 operands, of FP32 queries twice as many. A
/// BF16 result is within 2^-9 of it.
double farthest(Scene &scene, const std::string &chip, int64_t rows,
                const std::vector<std::string> &schedule) {
  const bool bf16 = scene.spec.bf16;
  KernelProgram &built = program(scene.spec, chip, rows, schedule);
  for (const auto &[name, kernel] : built.kernels)
    EXPECT_EQ(kernel.standsIn, name.starts_with("embed")) << name;
  EXPECT_EQ(built.kernels.end(),
            std::ranges::find_if(built.kernels,
                                 [](const auto &kernel) {
                                   return kernel.first.starts_with("attention") &&
                                          kernel.first.find("consumers") == std::string::npos;
                                 }))
      << "no matrix instructions";
  built.run(scene.input());
  Tensor blocks = scene.spec.sparse ? selectionOf(built, scene) : Tensor();
  Tensor expected = scene.attention(scene.spec.sparse ? &blocks : nullptr);
  double worst = 0;
  for (size_t i = 0; i < expected.reals.size(); ++i) {
    double found =
        bf16 ? std::bit_cast<float>(uint32_t(built.buffer<uint16_t>("attention")[i]) << 16)
             : built.buffer<float>("attention")[i];
    double away = std::fabs(found - expected.reals[i]);
    worst = std::isnan(away) ? INFINITY : std::max(worst, away);
  }
  return worst;
}

SceneSpec fp8(std::vector<RowAt> rows, bool bf16, bool sparse) {
  SceneSpec spec = small(std::move(rows), 2);
  spec.cache.storage = "fp8";
  spec.cache.e4m3Grid = false;
  spec.bf16 = bf16;
  spec.sparse = sparse;
  return spec;
}

/// One form for a tile of rows (gfx950), one for each row, one for all pages of a row.
TEST(Fp8Pages, AreMultipliedInFp16) {
  for (const char *chip : {"gfx950", "sm_100a", "sm_107a"})
    for (bool bf16 : {true, false})
      for (auto [sparse, schedule] :
           std::vector<std::pair<bool, std::vector<std::string>>>{{true, {}},
                                                                  {true, {"attention.shared=0"}},
                                                                  {true, {"attention.flat=0"}},
                                                                  {false, {}}}) {
        if (!schedule.empty() &&
            (schedule[0] == "attention.shared=0") != (std::string(chip) == "gfx950"))
          continue;
        std::vector<RowAt> rows = chunkOf(0, 250, 5);
        rows.push_back({1, 130});
        Scene scene(fp8(rows, bf16, sparse));
        if (bf16)
          for (double &x : scene.query.reals)
            x = m3c::formats::roundToBf16(float(x));
        EXPECT_LE(farthest(scene, chip, 8, schedule), attentionBound(scene, 3 * 128))
            << chip << (bf16 ? ", BF16" : ", FP32") << (sparse ? "" : ", dense");
      }
}

/// What eleven bits of a query leave decides between two keys: of the first the products cancel but
/// for it, 448 · 64 · 2^-12, of the second all are zero. Bound of a score with |q||k| = √128 · 448
/// · √128 (attentionBound): 0.08 in a weight's exponent, a quarter of it in a mean of 0 and 1.
TEST(Fp8Pages, QueriesInFp32KeepTwentyTwoBits) {
  for (const char *chip : {"gfx950", "sm_100a", "sm_107a"})
    for (bool sparse : {true, false}) {
      Scene scene(fp8({{0, 1}, {0, 1}}, false, sparse));
      for (size_t i = 0; i < scene.query.reals.size(); ++i)
        scene.query.reals[i] = i % 2 ? 1 : 1 + 0x1p-12;
      std::vector<double> key(128), ones(128, 1.0), zeros(128, 0.0);
      for (size_t i = 0; i < key.size(); ++i)
        key[i] = i % 2 ? -448 : 448;
      for (int64_t head = 0; head < 2; ++head) {
        scene.write(Lane::Key, 0, 0, head, key);
        scene.write(Lane::Value, 0, 0, head, ones);
        scene.write(Lane::Key, 0, 1, head, zeros);
        scene.write(Lane::Value, 0, 1, head, zeros);
      }
      EXPECT_LE(farthest(scene, chip, 2, {}), 0.02 + 0x1p-10) << chip; // without the rest: 0.15
    }
}

//===- Planted faults -------------------------------------------------------------------------===//

constexpr TextFault textFaults[] = {
    // The second row takes the third one's number of keys.
    {"MaskOfTheWrongRow",
     R"((i64 s\d+ = s\d+ \+ i64\()1(\);\n +i64 e\d+ = loadScalar\(buf\d+ \+ s\d+\);[^\n]*\n +i64 s\d+ = e\d+ - s\d+;))",
     "$012$02"},
    // The first part also takes the page with which the second begins.
    {"PageCountedTwice",
     R"((i64 s\d+ = s\d+ - s\d+)(;\n +i64 s\d+ = minimum\([es]\d+, i64\(\d+\)\);\n +i64 s\d+ = maximum\())",
     "$01 + (blockX == 0)$02"},
    {"PageTakenForAnother", R"((auto s\d+ = e\d+ )==( x\d+;))", "$01!=$02"},
    // The values of all tokens of a step for a row that does not see all.
    {"LimitOfARowIgnored", R"((bool s\d+ = s\d+ >= i64\()32(\);))", "$011$02"},
    // Between the steps by which pages are numbered.
    {"MissingBarrierInTheList",
     R"((storeScalar\(buf\d+ \+ it\d+, e\d+\);[^\n]*\n +\}\n) +barrier\(\);)", "$01"},
};

class SharedPagesKernel : public testing::TestWithParam<TextFault> {};

TEST_P(SharedPagesKernel, WithAFaultIsFound) {
  Scene scene(small({{0, 300}, {0, 301}, {1, 260}, {1, 261}}, 16));
  shareBeginning(scene, 1);
  KernelProgram built(Scene::module(scene.spec), chip, 4, {"attention.parts=2"});
  plant(built, chip, "attention", GetParam(), std::regex_constants::format_first_only);
  try {
    built.run(scene.input());
  } catch (const m3c::Error &error) {
    EXPECT_NE(error.summary().find("fails in the emulator"), std::string::npos) << error.what();
    return;
  }
  EXPECT_GT(distance(built, scene), 1);
}

INSTANTIATE_TEST_SUITE_P(Planted, SharedPagesKernel, testing::ValuesIn(textFaults),
                         [](const testing::TestParamInfo<TextFault> &info) {
                           return info.param.name;
                         });

} // namespace
