// Sparse attention with pages outside and rows inside, in the emulator, against the reference on
// the kernel's own selection; a row's bits do not depend on what is beside it.
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

const std::string chip = "sm_90a";
using Choices = std::vector<std::string>;

SceneSpec sceneOf(std::vector<RowAt> rows, int64_t k = 4, int64_t init = 0) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.heads = 8;
  spec.k = k;
  spec.init = init;
  spec.bf16 = true;
  spec.rows = std::move(rows);
  return spec;
}

Choices outer(Choices more = {}) {
  more.push_back("attention.kv_outer=1");
  more.push_back("attention.residents=1"); // the emulator has room for no more
  if (std::ranges::none_of(more, [](auto &choice) { return choice.find("parts") != choice.npos; }))
    more.push_back("attention.parts=3");
  return more;
}

Tensor selectionOf(const KernelProgram &built, const Scene &scene) {
  Tensor blocks = Tensor::ofIds({scene.batch.rows(), scene.spec.cache.kvHeads, scene.spec.k});
  auto chosen = built.buffer<int32_t>("selected_blocks");
  blocks.ids.assign(chosen.begin(), chosen.begin() + blocks.elements());
  return blocks;
}

/// Beside what attentionBound has, the mean of a page is rounded to FP16 (2^-11 of it), and those
/// of all pages are added in FP32, each with a weight that takes three operations.
double bound(const Scene &scene) {
  return attentionBound(scene, scene.spec.k * 128) +
         (0x1p-11 + 4 * double(scene.spec.k + 1) * 0x1p-24) * 6;
}

std::vector<float> valuesOf(const KernelProgram &built, const Scene &scene) {
  std::vector<float> values;
  for (uint16_t code : built.buffer<uint16_t>("attention").first(size_t(scene.query.elements())))
    values.push_back(std::bit_cast<float>(uint32_t(code) << 16));
  return values;
}

/// How far the result is from the reference, in bounds; a NaN is infinitely far.
double distance(const KernelProgram &built, const Scene &scene) {
  Tensor blocks = selectionOf(built, scene), expected = scene.attention(&blocks);
  std::vector<float> found = valuesOf(built, scene);
  double worst = 0, tolerance = bound(scene);
  for (size_t i = 0; i < expected.reals.size(); ++i) {
    double away = std::fabs(double(found[i]) - expected.reals[i]) / tolerance;
    worst = std::isnan(away) ? INFINITY : std::max(worst, away);
  }
  return worst;
}

std::vector<float> check(Scene &scene, int64_t rows, const Choices &choices = {},
                         uint64_t seed = 1) {
  KernelProgram &built = program(scene.spec, chip, rows, outer(choices));
  EXPECT_TRUE(std::ranges::any_of(built.kernels, [](const auto &entry) {
    return entry.first.find("kv_outer1") != std::string::npos;
  }));
  StepInput input = scene.input();
  input.seed = seed;
  built.run(input);
  EXPECT_LE(distance(built, scene), 1) << "bucket " << rows;
  return valuesOf(built, scene);
}

/// Values of row r.
std::vector<float> rowOf(const std::vector<float> &values, const Scene &scene, size_t r) {
  auto width = std::ptrdiff_t(scene.query.width());
  auto first = values.begin() + std::ptrdiff_t(r) * width;
  return {first, first + width};
}

/// All rows choose the same pages; rows of a page see different numbers of its keys.
TEST(KvOuter, RowsOfOneSequence) {
  for (auto [first, count, bucket] : std::vector<std::tuple<int32_t, int32_t, int64_t>>{
           {0, 2, 2}, {126, 4, 4}, {380, 7, 8}, {31, 3, 8}, {120, 16, 16}}) {
    Scene scene(sceneOf(chunkOf(0, first, count)));
    check(scene, bucket);
  }
}

/// Each length has a sequence of its own: rows of one block have different pages, and choose fewer
/// than they may.
TEST(KvOuter, RaggedBatches) {
  Scene scene(sceneOf(rowsOfLengths({1, 127, 128, 129, 511, 512, 513, 900}), 16));
  std::vector<float> all = check(scene, 16);
  scene.keepRows({6, 0, 3});
  std::vector<float> some = check(scene, 4);
  EXPECT_EQ(rowOf(some, scene, 0), rowOf(all, scene, 6));
  EXPECT_EQ(rowOf(some, scene, 1), rowOf(all, scene, 0));
  EXPECT_EQ(rowOf(some, scene, 2), rowOf(all, scene, 3));
}

/// Rows of sequences in turn, each row with its own choice of more pages than it may have, and one
/// that all have to choose (`init`).
TEST(KvOuter, RowsThatShareSomePages) {
  std::vector<RowAt> rows = chunkOf(0, 1200, 6);
  for (int32_t i = 0; i < 4; ++i) {
    rows.push_back({1, 1000 + i});
    rows.push_back({0, 700 + i});
  }
  for (int64_t init : {0, 1}) {
    Scene scene(sceneOf(rows, 4, init));
    std::vector<float> all = check(scene, 16);
    // A row alone, and others beside it, give the same bits.
    scene.keepRows({3, 8, 9});
    std::vector<float> some = check(scene, 4);
    size_t from[] = {3, 8, 9};
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(rowOf(some, scene, i), rowOf(all, scene, from[i])) << i;
  }
}

/// Rows with equal scores of all blocks choose by number: all the same pages.
TEST(KvOuter, Ties) {
  Scene scene(sceneOf(chunkOf(0, 760, 9)));
  std::ranges::fill(scene.indexQuery.reals, 0.0);
  check(scene, 16);
}

/// How the work is shared out, and which rows go together, does not touch a row's bits.
TEST(KvOuter, Schedules) {
  std::vector<RowAt> rows = chunkOf(0, 900, 9);
  rows.push_back({1, 300});
  rows.push_back({1, 301});
  Scene scene(sceneOf(rows));
  std::vector<float> first = check(scene, 16);
  for (Choices choices : std::vector<Choices>{{"attention.parts=1"},
                                              {"attention.parts=40"},
                                              {"attention.consumers=8"},
                                              {"attention.ahead=1"},
                                              {"attention.ahead=1", "attention.consumers=8"},
                                              {"attention.consumers=16", "attention.parts=2"},
                                              {"attention.rows_at_once=4"},
                                              {"attention.rows_at_once=5"},
                                              {"attention.rows_at_once=100"}})
    EXPECT_EQ(check(scene, 16, choices), first) << choices[0];
  EXPECT_EQ(check(scene, 16, {}, 7), first);
  EXPECT_EQ(check(scene, 32), first);
}

TEST(KvOuter, Heads) {
  for (auto [heads, kvHeads] : std::vector<std::pair<int64_t, int64_t>>{{16, 1}, {3, 3}, {4, 4}}) {
    SceneSpec spec = sceneOf(chunkOf(0, 300, 3), 2);
    spec.heads = heads;
    spec.cache.kvHeads = kvHeads;
    Scene scene(spec);
    check(scene, 4);
  }
}

TEST(KvOuter, Choices) {
  for (int64_t k : {1, 3, 32}) {
    std::vector<RowAt> rows = chunkOf(0, 640, 3);
    rows.push_back({1, 100});
    Scene scene(sceneOf(rows, k));
    check(scene, 4);
  }
}

TEST(KvOuter, NoRows) {
  Scene scene(sceneOf({}));
  KernelProgram &built = program(scene.spec, chip, 8, outer({"attention.rows_at_once=3"}));
  StepInput input = scene.input();
  input.blocks = 4;
  built.run(input);
  for (uint16_t code : built.buffer<uint16_t>("attention"))
    ASSERT_EQ(code & 0x7fff, 0x7fff) << "a row of padding was written";
}

/// More rows than lanes, of several warps' shares of the choices; three chunks.
TEST(KvOuter, ManyRows) {
  Scene scene(sceneOf(chunkOf(0, 100, 150), 2));
  std::vector<float> parts = check(scene, 160, {"attention.rows_at_once=64"});
  EXPECT_EQ(check(scene, 160), parts);
}

/// More blocks than a work item of the lists has.
TEST(KvOuter, LongSequences) {
  SceneSpec spec = sceneOf({{0, 8300}, {1, 500}, {0, 8301}, {1, 60}});
  spec.cache.kvHeads = 1;
  spec.farPage = false;
  spec.pages = 90;
  Scene scene(spec);
  check(scene, 4);
}

/// A value of a later token does not touch the rows before it, though they share its page.
TEST(KvOuter, LaterTokensDoNotMatter) {
  Scene scene(sceneOf(chunkOf(0, 130, 4)));
  const std::vector<double> large(size_t(scene.spec.cache.headDim), 1000.0);
  std::vector<float> before = check(scene, 4);
  for (int64_t head = 0; head < scene.spec.cache.kvHeads; ++head)
    scene.write(Lane::Value, 0, 133, head, large);
  KernelProgram &built = program(scene.spec, chip, 4, outer());
  built.run(scene.input());
  std::vector<float> after = valuesOf(built, scene);
  for (size_t r = 0; r < 3; ++r)
    EXPECT_EQ(rowOf(before, scene, r), rowOf(after, scene, r)) << r;
  EXPECT_NE(rowOf(before, scene, 3), rowOf(after, scene, 3));
}

/// Rows in the order of falling positions: the first ones do not see all keys that a page brings
/// for later ones.
TEST(KvOuter, RowsThatGoBack) {
  std::vector<RowAt> rows = chunkOf(0, 250, 8);
  std::ranges::reverse(rows);
  Scene scene(sceneOf(rows));
  std::vector<float> back = check(scene, 8);
  std::vector<size_t> order = {7, 6, 5, 4, 3, 2, 1, 0};
  scene.keepRows(order);
  std::vector<float> forth = check(scene, 8);
  for (size_t r = 0; r < 8; ++r)
    EXPECT_EQ(rowOf(back, scene, order[r]), rowOf(forth, scene, r)) << r;
}

/// Queries of FP8 caches are BF16 values, on no grid: scores are exact products of them.
TEST(KvOuter, Fp8Pages) {
  std::vector<RowAt> rows = chunkOf(0, 250, 5);
  rows.push_back({1, 130});
  SceneSpec spec = sceneOf(rows, 2);
  spec.cache.storage = "fp8";
  spec.cache.e4m3Grid = false;
  Scene scene(spec);
  for (double &x : scene.query.reals)
    x = m3c::formats::roundToBf16(float(x));
  check(scene, 8);
}

TEST(KvOuter, IsNotThereForOtherCaches) {
  SceneSpec spec = sceneOf(chunkOf(0, 130, 2));
  spec.cache.storage = "bf16";
  KernelProgram built(Scene::module(spec), chip, 4, {"attention.kv_outer=1"});
  for (const auto &[name, kernel] : built.kernels)
    EXPECT_EQ(name.find("kv_outer"), std::string::npos) << name;
}

//===- Planted faults -------------------------------------------------------------------------===//

/// Rows of two sequences in turn, so that tiles have several pages; later ones that see fewer keys
/// of a page than earlier ones.
Scene faultScene() {
  std::vector<RowAt> rows = chunkOf(0, 700, 4);
  for (const RowAt &row : std::vector<RowAt>{{1, 200}, {0, 600}, {1, 201}, {0, 602}})
    rows.push_back(row);
  return Scene(sceneOf(rows, 8));
}

void expectFound(KernelProgram &built, Scene &scene) {
  try {
    for (uint64_t seed : {1, 2, 3}) {
      StepInput input = scene.input();
      input.seed = seed;
      input.times = 3;
      built.run(input);
      if (distance(built, scene) > 1)
        return;
    }
  } catch (const m3c::Error &error) {
    EXPECT_NE(error.summary().find("fails in the emulator"), std::string::npos) << error.what();
    return;
  }
  ADD_FAILURE() << "the fault was not found";
}

constexpr HeaderFault headerFaults[] = {
    {"ValuesWithoutTheirFence", "shared_pages.h",
     "uint4{ones, ones, ones, ones});\n  fenceForProducts();", "uint4{ones, ones, ones, ones});"},
    {"RunsInTheWrongPlace", "shared_pages.h", "(run % 8 ^ row % 8) * 8", "(run % 8 ^ row % 4) * 8"},
    {"HalvesOfAnOperandSwapped", "shared_pages.h", "(s / 4 * (N * 128)",
     "((s / 4 ^ 1) * (N * 128)"},
    {"ValuesOfTokensNotSeen", "shared_pages.h", "if (token >= tokens)", "if (false)"},
    {"ScalesOfAnotherQuad", "shared_pages.h", "token / 4 * 32 + g * 4", "token / 4 * 32 + g * 2"},
    {"OnesLeftOut", "shared_pages.h", "ones = 0x3c003c00u", "ones = 0x3c000000u"},
};
class KvOuterHeaders : public testing::TestWithParam<HeaderFault> {};
TEST_P(KvOuterHeaders, WithAFaultAreFound) {
  Scene scene = faultScene();
  KernelProgram built(Scene::module(scene.spec), chip, 8, outer());
  plant(built, chip, GetParam());
  expectFound(built, scene);
}
INSTANTIATE_TEST_SUITE_P(Planted, KvOuterHeaders, testing::ValuesIn(headerFaults),
                         [](const testing::TestParamInfo<HeaderFault> &info) {
                           return info.param.name;
                         });

/// In the text of the kernel whose name begins so.
struct KernelFault {
  const char *kernel;
  TextFault fault;
};
void PrintTo(const KernelFault &fault, std::ostream *out) { *out << fault.fault.name; }

constexpr KernelFault kernelFaults[] = {
    {"attention_products",
     {"PageBroughtWhileOthersMultiply",
      R"(barrier\(\);([^\n]*\n +i64 s\d+ = convert<i64>\(r\d+\);))", "$01"}},
    {"attention_products",
     {"PageMultipliedBeforeItIsThere",
      R"((slot_e2m1<4>\(view\d+, view\d+, buf\d+, s\d+, buf\d+\);[^\n]*\n +)barrier\(\);)", "$01"}},
    {"attention_products", {"PageOfFewerKeysTaken", R"((bool s\d+ = )v\d+ >= r\d+;)", "$01true;"}},
    {"attention_products", {"KeysNotSeenCounted", R"((bool s\d+ = e\d+ < i32\()128\);)", "$010);"}},
    {"attention_products",
     {"RowsOfOtherPagesStored", R"((bool s\d+ = )e\d+ == r\d+;)", "$01true;"}},
    {"attention_products",
     {"OnlyTheFirstPageOfATile", R"(select\((s\d+), i64\(1\), i64\(4\)\))",
      "select($01, i64(1), i64(1))"}},
    {"attention_pages", {"LastKeyNotSeen", R"((minimum\(s\d+, i32\()128\))", "$01127)"}},
    {"attention_counts",
     {"ChoiceNotCounted", R"(select\((s\d+), i32\(3\), )", "select($01, i32(-1), "}},
    {"attention_sum", {"PagesOfEqualWeight", R"(exponential2\(s\d+\))", "1.0f"}},
    {"attention_sum", {"OddPageTwice", R"(select\(s\d+, (s\d+), 0x0p0f\))", "$01"}},
};
class KvOuterKernels : public testing::TestWithParam<KernelFault> {};
TEST_P(KvOuterKernels, WithAFaultAreFound) {
  Scene scene = faultScene();
  KernelProgram built(Scene::module(scene.spec), chip, 8, outer());
  plant(built, chip, GetParam().kernel, GetParam().fault);
  expectFound(built, scene);
}
INSTANTIATE_TEST_SUITE_P(Planted, KvOuterKernels, testing::ValuesIn(kernelFaults),
                         [](const testing::TestParamInfo<KernelFault> &info) {
                           return info.param.fault.name;
                         });

} // namespace
