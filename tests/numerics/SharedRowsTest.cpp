// Products of many rows that stand in shared memory (wgmma): against sums in FP64, beside the
// products of single warps, and with planted faults, each of which must show.
//
// Operands are exact in BF16, products exact. An instruction adds 16 products to a sum, each cut at
// 2^-25 of the largest, the result to FP32: with t = Σ|term| of an output it loses at most
// (17 · 2^-25 + 2^-23) · t < 11 · 2^-24 · t, and each of the parts of K that are added in the end
// 2^-24 · t more. FP32 rows in two BF16 parts lose at most 2^-9 of what is at most 2^-9 of an
// element, and have twice the instructions.
#include "tests/numerics/FragmentWeight.h"
#include "tests/numerics/PlantedFaults.h"

#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace m3c;
using namespace m3c::numerics;

namespace {

constexpr const char *chip = "sm_90a";
constexpr double u = 0x1p-24;

struct Case {
  const char *name;
  int64_t rows, bucket, outputs, inputs;
  bool mxfp8;
  std::vector<std::string> schedule = {};
  bool split = false; ///< FP32 rows, each in two parts
};
void PrintTo(const Case &product, std::ostream *out) { *out << product.name; }

const Case cases[] = {
    {"OneTile", 128, 128, 128, 256, false, {"project.cluster=1"}},
    {"LastTileNotFull", 200, 256, 256, 512, true, {"project.cluster=2"}},
    {"TilesWithoutRows", 70, 256, 192, 192, true, {"project.cluster=1", "project.ahead=3"}},
    {"PartsOfK", 129, 256, 128, 512, false, {"project.cluster=8"}},
    {"LastPanelsAlone", 130, 256, 208, 256, true},
    {"TilesOf64Rows", 190, 192, 128, 256, true, {"project.rows=64"}},
    {"FewRows", 50, 64, 128, 192, true},
    {"ProductsAfterTheLastRound",
     130,
     256,
     128,
     704,
     true,
     {"project.cluster=1", "project.ahead=4"}},
    {"SixteenPanels", 130, 256, 512, 1152, true, {"project.cluster=1", "project.panels=16"}},
    {"SplitTile", 128, 128, 128, 256, true, {"project.cluster=1"}, true},
    {"SplitPartsOfK", 129, 256, 128, 512, false, {"project.cluster=4"}, true},
    {"SplitAfterTheLastRound", 70, 128, 128, 704, true, {"project.cluster=1"}, true},
    {"SplitSixteenPanels",
     130,
     256,
     512,
     1152,
     true,
     {"project.cluster=1", "project.panels=16"},
     true},
};

std::string moduleOf(const Case &product) {
  auto matrix = [](int64_t rows, int64_t cols, const char *separator) {
    return std::to_string(rows) + separator + std::to_string(cols);
  };
  std::string n = std::to_string(product.outputs), k = std::to_string(product.inputs);
  std::string element = product.split ? "xf32" : "xbf16";
  std::string parts = "#m3.part<values, \"w\", \"" +
                      std::string(product.mxfp8 ? "F8_E4M3" : "BF16") + "\", [" +
                      matrix(product.outputs, product.inputs, ", ") + "]>";
  if (product.mxfp8)
    parts += ", #m3.part<block_scale, \"ws\", \"U8\", [" +
             matrix(product.outputs, product.inputs / 32, ", ") + "]>";
  return "m3.weight @x : !m3.weight<" + matrix(product.rows, product.inputs, "x") +
         ", f32> {parts = [#m3.part<values, \"x\", \"F32\", [" +
         matrix(product.rows, product.inputs, ", ") + "]>]}\nm3.weight @w : !m3.weight<" +
         matrix(product.outputs, product.inputs, "x") + (product.mxfp8 ? ", mxfp8" : ", bf16") +
         "> {parts = [" + parts + "]}\nfunc.func @step(%batch: !m3.batch) -> tensor<?x" + n +
         "xf32> {\n  %x = m3.embed %batch, @x : tensor<?x" + k + element +
         ">\n  %y = m3.project %x, @w : tensor<?x" + k + element + "> -> tensor<?x" + n +
         "xf32>\n  return %y : tensor<?x" + n + "xf32>\n}";
}

class Scene {
public:
  explicit Scene(const Case &product)
      : product(product), weight(product.outputs, product.inputs, product.mxfp8),
        x(size_t(product.rows * product.inputs)) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (float &value : x)
      value = product.split ? normal(random) : formats::roundToBf16(normal(random));
  }

  KernelProgram build(bool shared) const {
    std::vector<std::string> schedule;
    if (shared || product.rows < 64)
      schedule = product.schedule;
    schedule.push_back(shared ? "project.packed_rows=1" : "project.packed_rows=0");
    if (product.split)
      schedule.push_back("project.split_rows=1");
    return {moduleOf(product), chip, product.bucket, schedule};
  }

  /// How many outputs are out of their bounds.
  int64_t wrong(KernelProgram &program, uint64_t seed = 1) const {
    interpreter::Batch batch = oneText(product.rows);
    StepInput input{&batch, {}, nullptr, 0, 2, seed, "", {}};
    input.times = 3; // stages come early, late, at random
    input.weights = {{"x", x}, {"w.fragments", weight.words}, {"w.fragment_scales", weight.scales}};
    program.run(input);
    auto y = program.buffer<float>("w");
    int64_t count = 0;
    for (int64_t r = 0; r < product.rows; ++r)
      for (int64_t n = 0; n < product.outputs; ++n) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < product.inputs; ++k) {
          double term = double(x[size_t(r * product.inputs + k)]) *
                        weight.values[size_t(n * product.inputs + k)];
          sum += term, size += std::fabs(term);
        }
        double bound = (double(product.inputs) / 16 * 11 + 8) * u * size;
        if (product.split)
          bound = 2 * bound + 0x1p-18 * size;
        count += !(std::fabs(y[size_t(r * product.outputs + n)] - sum) <= bound);
      }
    return count;
  }

private:
  const Case &product;
  const FragmentWeight weight;
  std::vector<float> x;
};

bool sharesRows(const KernelProgram &program) {
  return std::ranges::any_of(program.kernels, [](const auto &entry) {
    return entry.second.source.find("mmaShared(") != std::string::npos;
  });
}

class SharedRows : public testing::TestWithParam<Case> {};

TEST_P(SharedRows, AreWithinTheBoundOfTheirSums) {
  Scene scene(GetParam());
  for (bool shared : {true, false}) {
    KernelProgram program = scene.build(shared);
    EXPECT_EQ(sharesRows(program), shared);
    EXPECT_EQ(scene.wrong(program), 0) << (shared ? "in shared memory" : "by single warps");
  }
}

std::string caseName(const testing::TestParamInfo<Case> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Products, SharedRows, testing::ValuesIn(cases), caseName);

/// Two columns of an instruction for each row, beside those of many rows above.
class FewSplitRows : public testing::TestWithParam<int64_t> {};

TEST_P(FewSplitRows, AreWithinTheBoundOfTheirSums) {
  for (int64_t cluster : {1, 4}) {
    Case product{"", GetParam(), GetParam(), 128, 512, true, {}, true};
    product.schedule = {"project.cluster=" + std::to_string(cluster)};
    SCOPED_TRACE(product.schedule[0]);
    Scene scene(product);
    KernelProgram program = scene.build(false);
    EXPECT_EQ(scene.wrong(program), 0);
    // One part alone is not enough.
    plant(
        program, chip,
        HeaderFault{"", "fragments.h", "acc.v[n][2 * i] + acc.v[n][2 * i + 1]", "acc.v[n][2 * i]"});
    EXPECT_GT(scene.wrong(program), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(SharedRows, FewSplitRows, testing::Values(1, 4, 7, 8, 16, 31));

/// Two tiles of rows, the last one not full; eight products in each of two work items, through four
/// stages.
const Case planted = {
    "Planted", 200, 256, 128, 1024, true, {"project.cluster=2", "project.stages=4"}};

/// Something is out of its bounds, or the emulator has a complaint of the kernel.
template <class Plant> void expectFound(Plant plantIn) {
  Scene scene(planted);
  KernelProgram program = scene.build(true);
  plantIn(program);
  try {
    EXPECT_GT(scene.wrong(program), 0);
  } catch (const Error &error) {
    EXPECT_NE(error.where().find("work item ("), std::string::npos) << error.what();
  }
}

const HeaderFault headerFaults[] = {
    {"SwizzleOfTheNextRow", "shared_rows.h", "(run ^ row % 8)", "(run ^ (row + 1) % 8)"},
    {"PairsInAnotherOrder", "shared_rows.h", "loadAt(pairs), loadAt(pairs + 8)",
     "loadAt(pairs + 8), loadAt(pairs)"},
    {"HalfTheWayToTheNextRows", "shared_rows.h", "(1024 >> 4)", "(512 >> 4)"},
    {"StepsOfTwoInstructions", "shared_rows.h", "s * (32 >> 4)", "s * (64 >> 4)"},
    {"AnotherSwizzle", "shared_rows.h", "(u64)1 << 62", "(u64)2 << 62"},
    {"FenceLeftOut", "shared_rows.h", "fenceProducts(acc.v);", ""},
    {"CommitLeftOut", "shared_rows.h", "commitProducts();", ""},
    {"SumsTakenBeforeTheyAreThere", "shared_rows.h", "awaitProducts<leaves>(acc.v);",
     "awaitProducts<1>(acc.v);"},
};
class PlantedInHeaders : public testing::TestWithParam<HeaderFault> {};
TEST_P(PlantedInHeaders, IsFound) {
  expectFound([](KernelProgram &program) { plant(program, chip, GetParam()); });
}
std::string headerName(const testing::TestParamInfo<HeaderFault> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(SharedRows, PlantedInHeaders, testing::ValuesIn(headerFaults), headerName);

const TextFault textFaults[] = {
    {"StagesReleasedTooSoon", "awaitShared<1>", "awaitShared<2>"},
    {"StageNotWaitedFor", R"(ring(\d+)\.wait\(\w+\))", "ring$1.base"},
    {"SumsOverStagesThatOthersMultiply", R"(barrierOf\(\d+, \d+\);)", ""},
    {"AllPanelsAreTheFirst", R"(= warpId\(\);)", "= warpId() / 8;"},
};
class PlantedInTexts : public testing::TestWithParam<TextFault> {};
TEST_P(PlantedInTexts, IsFound) {
  expectFound([](KernelProgram &program) {
    plant(program, chip, "project", GetParam(), std::regex_constants::format_first_only);
  });
}
std::string textName(const testing::TestParamInfo<TextFault> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(SharedRows, PlantedInTexts, testing::ValuesIn(textFaults), textName);

TEST(SharedRows, ThePlantedKernelIsSoundWithoutFaults) {
  Scene scene(planted);
  KernelProgram program = scene.build(true);
  EXPECT_EQ(scene.wrong(program, 2), 0);
}

} // namespace
