// Attention with the pages of all rows laid end to end and shared out over the whole batch, against
// the reference and against parts of rows.
//
// Bounds are those of attentionBound (Scene.h) and of the rescalings of parts.
#include "runtime/base/Error.h"
#include "tests/numerics/PlantedFaults.h"
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

/// A chip with matrix instructions, whether its kernels take BF16 rows, and other choices.
struct Kernel {
  std::string chip;
  bool bf16;
  std::vector<std::string> schedule;
};
std::vector<Kernel> kernels() {
  return {{"sm_90a", true, {}},
          {"sm_107a", false, {}},
          {"sm_100a", false, {"attention.tensor=0"}},
          {"sm_100a", false, {}},
          {"gfx950", false, {"attention.shared=0"}}};
}

SceneSpec sceneOf(std::vector<RowAt> rows, bool sparse, bool bf16) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.heads = 8;
  spec.sparse = sparse;
  spec.k = 4;
  spec.bf16 = bf16;
  spec.farPage = false;
  spec.pages = 120;
  spec.rows = std::move(rows);
  return spec;
}

/// With the rescalings of parts, of which a row has at most as many as pages.
double bound(const Scene &scene) {
  int64_t keys = (scene.spec.sparse ? scene.spec.k : scene.batch.blocks()) * 128;
  return attentionBound(scene, keys) + 3 * (double(keys) / 128 + 1) * 0x1p-24 * 6;
}

std::vector<float> valuesOf(const KernelProgram &built, const Scene &scene) {
  std::vector<float> values;
  auto count = size_t(scene.query.elements());
  if (!scene.spec.bf16) {
    auto from = built.buffer<float>("attention").first(count);
    return {from.begin(), from.end()};
  }
  for (uint16_t code : built.buffer<uint16_t>("attention").first(count))
    values.push_back(std::bit_cast<float>(uint32_t(code) << 16));
  return values;
}

std::vector<float> run(Scene &scene, const Kernel &kernel, int64_t rows,
                       std::vector<std::string> schedule) {
  schedule.insert(schedule.end(), kernel.schedule.begin(), kernel.schedule.end());
  KernelProgram &built = program(scene.spec, kernel.chip, rows, schedule);
  EXPECT_EQ(std::ranges::count(schedule, "attention.flat=1") > 0,
            std::ranges::any_of(built.kernels, [](const auto &entry) {
              return entry.first.find("_flat1_") != std::string::npos;
            }));
  built.run(scene.input());
  return valuesOf(built, scene);
}

/// Compares with the reference on the kernel's own selection.
std::vector<float> check(Scene &scene, const Kernel &kernel, int64_t rows,
                         const std::vector<std::string> &schedule) {
  std::vector<float> found = run(scene, kernel, rows, schedule);
  std::vector<std::string> all = schedule;
  all.insert(all.end(), kernel.schedule.begin(), kernel.schedule.end());
  Tensor blocks = Tensor::ofIds({scene.batch.rows(), scene.spec.cache.kvHeads, scene.spec.k});
  if (scene.spec.sparse) {
    auto chosen = program(scene.spec, kernel.chip, rows, all).buffer<int32_t>("selected_blocks");
    blocks.ids.assign(chosen.begin(), chosen.begin() + blocks.elements());
  }
  Tensor expected = scene.attention(scene.spec.sparse ? &blocks : nullptr);
  double tolerance = bound(scene);
  for (size_t i = 0; i < expected.reals.size(); ++i)
    if (!(std::fabs(double(found[i]) - expected.reals[i]) <= tolerance)) {
      ADD_FAILURE() << kernel.chip << ", bucket " << rows << ": element "
                    << int64_t(i) % expected.width() << " of row " << int64_t(i) / expected.width()
                    << " is " << found[i] << ", " << expected.reals[i] << " ± " << tolerance
                    << " expected";
      break;
    }
  return found;
}

/// So many stretches, and so many parts that are added at once.
std::vector<std::string> flat(int parts, int merge) {
  return {"attention.flat=1", "attention.stages=3", "attention.parts=" + std::to_string(parts),
          "attention.merge=" + std::to_string(merge)};
}

/// All lengths of interest, and one long row among short ones; as many rows as the step has and
/// fewer.
const std::vector<std::vector<int32_t>> batches = {
    {1, 127, 128, 129, 511, 512, 513, 2048, 3900, 1, 1, 128, 1, 3, 2, 900},
    {5000, 1, 1, 128, 1, 129, 1, 1},
};

TEST(FlatAttention, RaggedBatches) {
  for (const Kernel &kernel : kernels())
    for (const std::vector<int32_t> &lengths : batches)
      for (bool sparse : {false, true}) {
        Scene scene(sceneOf(rowsOfLengths(lengths), sparse, kernel.bf16));
        SCOPED_TRACE(kernel.chip + (sparse ? ", sparse" : ", dense"));
        std::vector<float> found = check(scene, kernel, 16, flat(7, 2));
        std::vector<float> byRows =
            run(scene, kernel, 16, {"attention.flat=0", "attention.parts=2"});
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], byRows[i], 2 * bound(scene)) << "element " << i;
      }
}

/// A row in many groups of parts, parts with many rows, more parts than pages.
TEST(FlatAttention, Stretches) {
  for (auto [parts, merge] : {std::pair(3, 12), {40, 3}, {200, 12}}) {
    Scene scene(sceneOf(rowsOfLengths(batches[1]), false, false));
    check(scene, kernels()[1], 16, flat(parts, merge));
  }
}

/// Other lengths in the same kernel, as a replayed graph has them: rows of one sequence, which are
/// cut at the same places, among others, alone, fewer than the step has.
TEST(FlatAttention, RowsOfOneSequenceAndFewerRows) {
  std::vector<RowAt> rows = chunkOf(0, 600, 9);
  rows.push_back({1, 0});
  const std::vector<std::vector<size_t>> steps = {
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {8}, {9, 4}};
  for (const Kernel &kernel : kernels())
    for (const std::vector<size_t> &kept : steps) {
      Scene scene(sceneOf(rows, false, kernel.bf16));
      scene.keepRows(kept);
      check(scene, kernel, 16, flat(20, 12));
    }
}

TEST(FlatAttention, NoRows) {
  for (const Kernel &kernel : kernels()) {
    Scene scene(sceneOf({}, false, kernel.bf16));
    std::vector<std::string> schedule = flat(20, 12);
    schedule.insert(schedule.end(), kernel.schedule.begin(), kernel.schedule.end());
    KernelProgram &built = program(scene.spec, kernel.chip, 16, schedule);
    StepInput input = scene.input();
    input.blocks = 4;
    built.run(input);
    for (uint8_t byte : built.buffer<uint8_t>("attention"))
      ASSERT_EQ(byte, 0xff) << "a row of padding was written";
  }
}

/// Who comes last adds the parts in the order of the pages.
TEST(FlatAttention, TheSameBitsWhoeverComesLast) {
  Kernel kernel = kernels()[1];
  Scene scene(sceneOf(rowsOfLengths({1500, 1, 700}), false, kernel.bf16));
  std::vector<float> first = check(scene, kernel, 16, flat(7, 2));
  KernelProgram &built = program(scene.spec, kernel.chip, 16, flat(7, 2));
  for (uint64_t seed : {2, 3, 4}) {
    StepInput input = scene.input();
    input.seed = seed;
    built.run(input);
    EXPECT_EQ(valuesOf(built, scene), first) << "seed " << seed;
  }
}

/// Two teams of warps take pages in turn, and a stage is the other one's the next time: it must not
/// be taken for filled while the page before is still on its way.
TEST(FlatAttention, TeamsThatTakeTurnsHoweverPagesLand) {
  for (const Kernel &kernel : {kernels()[0], kernels()[2]}) {
    Scene scene(sceneOf(rowsOfLengths({1500, 1, 300}), false, kernel.bf16));
    std::vector<std::string> schedule = flat(2, 2);
    std::vector<float> once = check(scene, kernel, 16, schedule);
    schedule.insert(schedule.end(), kernel.schedule.begin(), kernel.schedule.end());
    KernelProgram &built = program(scene.spec, kernel.chip, 16, schedule);
    StepInput input = scene.input();
    input.times = 3;
    built.run(input);
    EXPECT_EQ(valuesOf(built, scene), once) << kernel.chip;
  }
}

//===- Planted faults -------------------------------------------------------------------------===//

/// In both the kernel by mma.sync (sm_107a) and the one in tensor memory (sm_100a).
constexpr TextFault flatFaults[] = {
    {"StretchOnePageShort",
     R"((i64 \w+ = select\((\w+), \w+, (\w+)\);\s+i64 \w+ = select\(\2, )(\w+)(, \3\);))",
     "$1$4 - i64(1)$5"},
    {"StretchBeginsOnePageLate",
     R"((i64 \w+ = select\((\w+), )(\w+)(, (\w+)\);\s+i64 \w+ = select\(\2, \w+, \5\);))",
     "$1$3 + i64(1)$4"},
    {"SumMissesTheLastPart", R"((it\w+ < r\w+);)", "$1 - i64(1);"},
    {"SumBeforeTheLastPartHasCome", R"(arriveLast\(([^,]+), (\w+)\))", "arriveLast($1, $2 - 1)"},
    {"OneSlotForTwoRowsOfAPart", R"(= blockX \+ it\w+;)", "= blockX;"},
    {"RowsReadBeforeTheyAreLaid", R"(\n    barrier\(\);)", "\n"},
    {"PagesOfTheRowBefore",
     R"(i32 (\w+) = convert<i32>\((e\w+)\);(\s+auto t\w+ = map<[^\n]*\n\s+auto s\w+ = x\w+ < \1;\s+auto s\w+ = x\w+ \+ i32\(1\);))",
     "i32 $1 = convert<i32>($2) + 1;$3"},
};

/// In the kernel by mma.sync.
constexpr TextFault matrixFaults[] = {
    {"SumsReadBeforeAllWarpsHaveTheirs",
     R"((\* 32 \+ 16\);[^\n]*\n[^\n]*\n +)barrierOf\(1, 128\);)", "$1"},
    {"SumsOverwrittenBeforeTheyAreRead",
     R"((storeSpread[^\n]*\n +\}\n +\}\n[^\n]*\n +)barrierOf\(1, 128\);)", "$1"},
};

/// In the kernel in tensor memory: gates of its roles. 6: pages dequantised, 7: scores, 8: weights,
/// 9: all scores of a row's queries.
constexpr TextFault tensorFaults[] = {
    {"QueriesReplacedWithoutAWait", R"(gates9\.waitFull\(\w+\);)", ""},
    {"QueriesReplacedOnePhaseEarly", R"((gates9\.waitFull\(\w+))", "$1 - 1"},
    {"QueriesAwaitedAPhaseThatNeverEnds", R"((gates9\.waitFull\(\w+))", "$1 + 1"},
    {"QueriesFreeAfterTheRowsFirstPage",
     R"(== (s\w+);(\s+bool s\w+ = it\w+ < s\w+;\s+bool s\w+ = s\w+ & s\w+;\s+if \(s\w+\) \{\s+gates9))",
     "<= $1;$2"},
    {"MeansOfTheRowBeforeGoOn", R"((tensorProductF16<16>\([^)]*, )s\w+\);)", "$1true);"},
    {"MeansBeginAnewOnEachPage", R"((tensorProductF16<16>\([^)]*, )s\w+\);)", "$1false);"},
    {"MeansReadBeforeTheirProductHasEnded", R"((\n          )gates8\.waitEmpty\(s\w+\);)", "$1"},
    {"MeansRescaledWhileAProductAdds", R"(gates8\.waitEmpty\(it\w+\);)", ""},
    {"ProductBeforeItsWeights", R"(gates8\.waitFull\(\w+\);)", ""},
    {"LengthsReadBeforeTheyAreListed",
     R"((gates7\.waitFull\(it\w+\);[^\n]*\n\s+)gates6\.waitFull\(it\w+\);)", "$1"},
    {"LeavesBeforeTheLastProductsTell", R"(\n        gates6\.waitEmpty\(\w+\);)", "\n"},
    {"SumsOfWarpsReadTooEarly", R"((storeLanes\(v\w+, [^\n]*\n\s+\}\n\s+)barrierOf\(1, 128\);)",
     "$1"},
    {"SlotsOfAnotherHead", R"(= blockY (\* s\w+;\s+i64 \w+ = blockX \+))", "= 0 $1"},
};

/// In a stretch of more pages than are listed at once, and than tensor memory holds.
constexpr TextFault longFaults[] = {
    {"LengthsOverwrittenWhileTheyAreRead", R"(% i64\(64\))", "% i64(32)"},
};
constexpr TextFault longTensorFaults[] = {
    {"PagesOverwrittenBeforeTheyAreMultiplied", R"((\n          )gates6\.waitEmpty\(it\w+\);)",
     "$1"},
};

/// Of the device headers of the kernel in tensor memory.
constexpr HeaderFault headerFaults[] = {
    {"RingTooShallow", "memory.h",
     "waitFor(empty + stage(i), parity(i) ^ 1); // the phase before the first counts as ended", ""},
    gatesTooShallow,
    wrongPhase,
    missingFenceBeforeASignal,
    missingFenceAfterAWait,
    {"QueriesNotFenced", "tensor.h", "  fenceForProducts();\n  warpBarrier();", "  warpBarrier();"},
    {"LastArriverTooMany", "memory.h", "(i32)expected - 1", "(i32)expected"},
    {"CountedInBeforeAllWarpsHaveStored", "memory.h", "bool last = false;\n  barrier();",
     "bool last = false;"},
    {"GatesBarriersNotFenced", "tensor.h", "      fenceBarriers();\n", "\n"},
};

/// Builds the kernels of a step of long and short rows with a fault and sees that it is found:
/// reported by the emulator, a meeting that nobody ended, or results out of bounds, however copies
/// and products land.
void expectFound(const std::string &chip, const std::function<void(KernelProgram &)> &fault,
                 const std::vector<int32_t> &lengths = {900, 1, 300, 129, 2}, int parts = 4) {
  Scene scene(sceneOf(rowsOfLengths(lengths), false, false));
  Tensor expected = scene.attention(nullptr);
  KernelProgram built(Scene::module(scene.spec), chip, 8, flat(parts, 2));
  fault(built);
  double worst = 0;
  for (unsigned times : {1, 2, 3}) {
    StepInput input = scene.input();
    input.times = times;
    try {
      built.run(input);
    } catch (const m3c::Error &error) {
      bool emulator = error.summary().find("fails in the emulator") != std::string::npos;
      bool counter = error.summary().find("a counter is not zero") != std::string::npos;
      EXPECT_TRUE(emulator || counter) << error.what();
      return;
    }
    std::vector<float> found = valuesOf(built, scene);
    for (size_t i = 0; i < expected.reals.size(); ++i) {
      double distance = std::fabs(double(found[i]) - expected.reals[i]);
      worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
    }
    if (worst > bound(scene))
      return;
  }
  ADD_FAILURE() << "no report, and results are within " << worst << " of the reference";
}

class FlatKernels : public testing::TestWithParam<std::tuple<const char *, TextFault>> {};
TEST_P(FlatKernels, WithAFaultAreFound) {
  auto [chip, fault] = GetParam();
  expectFound(chip, [&](KernelProgram &built) { plant(built, chip, "attention", fault); });
}

class LongStretches : public testing::TestWithParam<std::tuple<const char *, TextFault>> {};
TEST_P(LongStretches, WithAFaultAreFound) {
  auto [chip, fault] = GetParam();
  expectFound(
      chip, [&](KernelProgram &built) { plant(built, chip, "attention", fault); }, {4400, 1}, 1);
}

class FlatHeaders : public testing::TestWithParam<HeaderFault> {};
TEST_P(FlatHeaders, WithAFaultAreFound) {
  expectFound("sm_100a", [](KernelProgram &built) { plant(built, "sm_100a", GetParam()); });
}

/// Where there are gates as well, their fence is that of the ring's barriers too.
TEST(FlatRings, WithBarriersThatNoFenceMakesKnownAreFound) {
  const HeaderFault fault = {"BarriersNotFenced", "memory.h", "      fenceBarriers();\n", "\n"};
  expectFound("sm_107a", [&](KernelProgram &built) { plant(built, "sm_107a", fault); });
}

template <size_t Count> auto planted(const char *chip, const TextFault (&faults)[Count]) {
  return testing::Combine(testing::Values(chip), testing::ValuesIn(faults));
}
std::string nameOf(const testing::TestParamInfo<std::tuple<const char *, TextFault>> &info) {
  return std::get<1>(info.param).name;
}
INSTANTIATE_TEST_SUITE_P(Planted, FlatKernels, planted("sm_107a", flatFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(PlantedMatrix, FlatKernels, planted("sm_107a", matrixFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(PlantedTensor, FlatKernels, planted("sm_100a", flatFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(PlantedTensorGates, FlatKernels, planted("sm_100a", tensorFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(Planted, LongStretches, planted("sm_107a", longFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(PlantedTensor, LongStretches, planted("sm_100a", longFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(PlantedTensorGates, LongStretches, planted("sm_100a", longTensorFaults),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Planted, FlatHeaders, testing::ValuesIn(headerFaults),
                         [](const testing::TestParamInfo<HeaderFault> &info) {
                           return info.param.name;
                         });

} // namespace
