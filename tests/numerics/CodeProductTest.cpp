// How the codes and scales of NVFP4 pages are multiplied (a schedule's `product`): each way against
// the reference, and with planted faults, each of which must show.
//
// Scores are sums of exact products, each instruction's sums cut to 25 bits: within
// (D + 1) · 2^-24 · |q| |k|. Attention is within what TensorTest.cpp derives.
#include "tests/numerics/PlantedFaults.h"
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

/// A kernel in which codes and scales are multiplied in one way.
struct Way {
  const char *chip;
  int product; ///< CodeProduct
  enum Kernel { Scores, Attention } kernel = Scores;
  bool large = false; ///< keys whose products exceed 448, where the E4M3 grid ends
};

struct ProductFault {
  Way way;
  HeaderFault fault;
};
void PrintTo(const ProductFault &planted, std::ostream *out) { PrintTo(planted.fault, out); }

constexpr Way table = {"sm_100a", 0}, multiply = {"sm_100a", 1}, detour = {"sm_100a", 2},
              exact = {"sm_107a", 3}, groups = {"sm_107a", 4},
              multiplyLarge = {"sm_100a", 1, Way::Scores, true},
              detourLarge = {"sm_100a", 2, Way::Scores, true},
              multiplyValues = {"sm_100a", 1, Way::Attention},
              detourValues = {"sm_100a", 2, Way::Attention};

const ProductFault faults[] = {
    {table,
     {"TableRowOfTheNeighbouringGroup", "cached.h", "rowOfScale(scales + 1, table), run.v + 8",
      "rowOfScale(scales, table), run.v + 8"}},
    {table, {"TableSignsOfOtherCodes", "cached.h", "high = packed << 4;", "high = packed << 8;"}},
    {multiply,
     {"ScaleOfTheNeighbouringGroup", "products.h", "loadWide<u8>(scales + group)",
      "loadWide<u8>(scales + (group ^ 1))"}},
    {multiply,
     {"ScaleInOneByteOfFour", "multiply.h", "return permuteBytes(byte, 0, 0);", "return byte;"}},
    {multiply, {"HalfOfAWordTwice", "multiply.h", "(u16)(word >> 16 * half)", "(u16)word"}},
    {multiply,
     {"NoRoundingToTheGrid", "multiply.h",
      "out[0] = f16OfE4m3Low(products), out[1] = f16OfE4m3High(products);",
      "out[0] = multiplyF16(f16OfE2m1(word, 2 * half), f16OfE4m3Low(scale + products * 0)),"
      "out[1] = multiplyF16(f16OfE2m1(word, 2 * half + 1), f16OfE4m3Low(scale));"}},
    // Without .satfinite what is too large becomes NaN.
    {multiplyLarge,
     {"NoSaturation", "multiply.h", "return multiplyE2m1E4m3((u16)(word >> 16 * half), scale);",
      "u32 products = multiplyE2m1E4m3((u16)(word >> 16 * half), scale);\n"
      "    for (int i = 0; i < 4; ++i)\n"
      "      if ((products >> 8 * i & 0x7fu) == 0x7eu)\n"
      "        products |= 1u << 8 * i;\n"
      "    return products;"}},
    {multiplyValues, {"UnseenValuesAreRead", "products.h", "if (tokens < 16)", "if (tokens < 0)"}},
    {detour,
     {"NibblesSwapped", "products.h", "multiplyF16(f16OfE2m1(word, 2 * half), scale)) |",
      "multiplyF16(permuteBytes(f16OfE2m1(word, 2 * half), 0, 0x1032), scale)) |"}},
    {detour,
     {"NoRoundingOnTheDetour", "products.h",
      "out[0] = f16OfE4m3Low(products), out[1] = f16OfE4m3High(products);",
      "out[0] = multiplyF16(f16OfE2m1(word, 2 * half), scale + products * 0),"
      "out[1] = multiplyF16(f16OfE2m1(word, 2 * half + 1), scale);"}},
    // Rounded a quarter as large, and so up to four times 448.
    {detourLarge,
     {"NoSaturationOnTheDetour", "products.h",
      "const u32 products = codes(word, half, scale);\n"
      "    out[0] = f16OfE4m3Low(products), out[1] = f16OfE4m3High(products);",
      "const u32 products = codes(word, half, multiplyF16(scale, 0x34003400u));\n"
      "    out[0] = multiplyF16(f16OfE4m3Low(products), 0x44004400u),"
      "out[1] = multiplyF16(f16OfE4m3High(products), 0x44004400u);"}},
    {detourValues,
     {"ScalesOfTokensInTheOrderOfEvenLanes", "products.h", "odd ? 0x2301 : 0x3210", "0x3210"}},
    {exact,
     {"HalvesOfAWordSwapped", "products.h", "P::pairs(four[2 * group + i / 2], i % 2,",
      "P::pairs(four[2 * group + i / 2], (i + 1) % 2,"}},
    {exact,
     {"SecondPairIsTheFirst", "products.h",
      "out[1] = multiplyF16(f16OfE2m1(word, 2 * half + 1), scale);",
      "out[1] = multiplyF16(f16OfE2m1(word, 2 * half), scale);"}},
    {exact,
     {"ScalesOfTheFirstKeyForTheSecond", "products.h", "scale + step * (K / 16))}", "scale)}"}},
    {groups,
     {"ScalesOfOtherRows", "groups.h", "scales + (g + 8 * half) * (K / 16)",
      "scales + (g + 8 * (1 - half)) * (K / 16)"}},
    {groups,
     {"ScalesOfGroupsInPairsSwapped", "groups.h", "s % 2 ? 0x3232 : 0x1010",
      "s % 2 ? 0x1010 : 0x3232"}},
    {groups,
     {"ScaledTogetherWithGroupsBefore", "groups.h", "f32 group[4] = {0, 0, 0, 0};",
      "f32 group[4] = {sums.v[n][0], sums.v[n][1], sums.v[n][2], sums.v[n][3]};"}},
    {groups,
     {"CodesOfTheOtherHalf", "groups.h",
      "a[half] = f16OfE2m1(four, 0), a[half + 2] = f16OfE2m1(four, 1);",
      "a[half] = f16OfE2m1(four, 1), a[half + 2] = f16OfE2m1(four, 0);"}},
    {groups,
     {"DimsOfAPairSwapped", "groups.h", "pairs[0] = packF16(four.x, four.y)",
      "pairs[0] = packF16(four.y, four.x)"}},
};

/// Two rows of one sequence, the last page of which is not full.
SceneSpec specOf(const Way &way) {
  SceneSpec spec;
  spec.cache.kvHeads = 1;
  spec.heads = 4;
  spec.sparse = way.kernel == Way::Scores;
  spec.attend = !spec.sparse;
  spec.rows = {{0, 300}, {0, 301}};
  return spec;
}
constexpr int64_t rows = 2, pages = 3, pageStride = 4;

KernelProgram &builtFor(const Way &way) {
  std::string family = way.kernel == Way::Scores ? "index_score" : "attention";
  std::vector<std::string> schedule = {family + ".product=" + std::to_string(way.product)};
  if (way.chip == std::string("sm_100a"))
    schedule.push_back(family + ".tensor=0");
  return program(specOf(way), way.chip, rows, schedule);
}

/// Keys whose scale is 192 and whose products go up to 1152.
void makeLarge(Scene &scene) {
  for (int64_t p = 0; p <= 301; ++p) {
    std::vector<double> key(size_t(scene.spec.cache.indexDim));
    for (size_t i = 0; i < key.size(); ++i)
      key[i] = 600 * (int(i * 7 + size_t(p)) % 5 - 2);
    scene.write(Lane::IndexKey, 0, p, 0, key);
  }
}

/// Lengths of queries and keys of normal deviates, beyond any chance.
const double dims = 128, length = std::sqrt(dims) + 5;

struct Distance {
  double worst = 0; ///< in units of what is allowed; infinite where something is no number
  void note(float found, double expected, double allowed) {
    double distance = std::fabs(double(found) - expected) / allowed;
    worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
  }
};

double distanceOfScores(const Way &way, KernelProgram &built) {
  Scene scene(specOf(way));
  if (way.large)
    makeLarge(scene);
  built.run(scene.input());
  // Products that are exact are those of keys that are not rounded to the cache's grid.
  SceneSpec spec = scene.spec;
  spec.cache.e4m3Grid = way.product < exact.product;
  Scene reference(spec);
  if (way.large)
    makeLarge(reference);
  reference.batch = scene.batch;
  Tensor scores = reference.scores();
  double key = way.large ? 448 * std::sqrt(dims) : length;
  Distance distance;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t page = 0; page < pages; ++page)
      distance.note(built.buffer<float>("block_scores")[size_t(row * pageStride + page)],
                    scores.reals[size_t(row * pages + page)], (dims + 1) * 0x1p-24 * length * key);
  return distance.worst;
}

double distanceOfAttention(const Way &way, KernelProgram &built) {
  Scene scene(specOf(way));
  built.run(scene.input());
  double scores = 2 * (dims + 1) * 0x1p-24 * scene.scale() * length * length;
  double weights = 2 * (0x1p-11 + 0x1p-21), sums = 2 * double(pages * 128) * 0x1p-24;
  Tensor expected = scene.attention(nullptr);
  Distance distance;
  for (size_t i = 0; i < expected.reals.size(); ++i)
    distance.note(built.buffer<float>("attention")[i], expected.reals[i],
                  (2 * scores + weights + sums) * 6);
  return distance.worst;
}

double distanceOf(const Way &way, KernelProgram &built) {
  return way.kernel == Way::Scores ? distanceOfScores(way, built) : distanceOfAttention(way, built);
}

class CodeProducts : public testing::TestWithParam<ProductFault> {};

TEST_P(CodeProducts, WithAFaultAreFound) {
  const auto &[way, fault] = GetParam();
  KernelProgram built = builtFor(way);
  plant(built, way.chip, fault);
  EXPECT_GT(distanceOf(way, built), 1);
}

INSTANTIATE_TEST_SUITE_P(Planted, CodeProducts, testing::ValuesIn(faults),
                         [](const testing::TestParamInfo<ProductFault> &info) {
                           return info.param.fault.name;
                         });

TEST(CodeProductWays, WithoutAFaultAreRight) {
  for (const Way &way : {table, multiply, multiplyLarge, multiplyValues, detour, detourLarge,
                         detourValues, exact, groups}) {
    KernelProgram built = builtFor(way);
    EXPECT_LE(distanceOf(way, built), 1) << way.chip << ", product " << way.product;
  }
}

/// A way without faults of its own would not be tested for them.
TEST(CodeProductWays, AllHaveFaults) {
  std::set<std::string> names;
  std::map<int, int> ofWay;
  for (const ProductFault &planted : faults) {
    EXPECT_TRUE(names.insert(planted.fault.name).second) << planted.fault.name;
    ++ofWay[planted.way.product];
  }
  for (int product = 0; product <= groups.product; ++product)
    EXPECT_GE(ofWay[product], 2) << "product " << product;
  EXPECT_EQ(ofWay.size(), size_t(groups.product) + 1);
}

} // namespace
