// Faults in what all kernels of cached pages stand on, rings, gates and tensor memory, planted into
// the device headers of block scores: each is found in every order that is tried, by the emulator
// or in the scores. Without a fault nothing is.
#include "runtime/base/Error.h"
#include "tests/numerics/PlantedFaults.h"
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <memory>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

/// Pages that two work items share: more than a ring has stages. A launch runs three times, so that
/// copies land early, late and at random.
struct Kernel {
  const char *chip;
  bool bf16;
  std::vector<std::string> schedule;
};
const Kernel stagedRing = {
    "sm_90a", true, {"index_score.parts=2", "index_score.stages=4", "index_score.consumers=4"}};
const Kernel tensorGates = {
    "sm_100a",
    false,
    {"index_score.parts=2", "index_score.stages=2", "index_score.tensor_stages=2"}};
const Kernel countedRing = {"gfx950",
                            false,
                            {"index_score.parts=2", "index_score.stages=4",
                             "index_score.consumers=3", "index_score.loaders=2"}};

SceneSpec specOf(const Kernel &kernel) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.heads = 8;
  spec.k = 4;
  spec.bf16 = kernel.bf16;
  spec.attend = false;
  spec.farPage = false;
  spec.pages = 60;
  spec.rows = {{0, 1500}, {0, 1501}, {1, 300}};
  return spec;
}

const KernelProgram &sound(const Kernel &kernel) {
  return program(specOf(kernel), kernel.chip, 4, kernel.schedule);
}

/// What the emulator says, "wrong scores", or nothing.
std::string foundIn(KernelProgram &built, const Kernel &kernel, uint64_t seed) {
  Scene scene(specOf(kernel));
  StepInput input = scene.input();
  input.seed = seed;
  input.times = 3;
  try {
    built.run(input);
  } catch (const m3c::Error &error) {
    EXPECT_NE(error.summary().find("fails in the emulator"), std::string::npos) << error.what();
    return error.why();
  }
  // Products are exact, sums of 128 of them FP32.
  Tensor scores = scene.scores();
  auto found = built.buffer<float>("block_scores");
  const double length = std::sqrt(128.) + 5, tolerance = 129 * 0x1p-24 * length * length;
  const int64_t blocks = scores.shape[2], stride = int64_t(std::bit_ceil(uint64_t(blocks)));
  for (int64_t i = 0; i < scores.elements(); ++i) {
    double expected = scores.reals[size_t(i)];
    double distance = found[size_t(i / blocks * stride + i % blocks)] - expected;
    if (expected != -INFINITY && !(std::fabs(distance) <= tolerance))
      return "wrong scores";
  }
  return "";
}

struct RingFault {
  const Kernel &kernel;
  HeaderFault fault;
};
void PrintTo(const RingFault &row, std::ostream *out) {
  *out << row.kernel.chip << " " << row.fault.name;
}

const RingFault rows[] = {
    // Barriers that count bytes and arrivals.
    {stagedRing,
     {"StageTakenBeforeItIsFree", "memory.h", "waitFor(empty + stage(i), parity(i) ^ 1); // the",
      "// the"}},
    {stagedRing,
     {"FreeStagesOfTheOtherPhase", "memory.h", "waitFor(empty + stage(i), parity(i) ^ 1); // the",
      "waitFor(empty + stage(i), parity(i)); // the"}},
    {stagedRing,
     {"FilledByTwo", "memory.h", "initBarrier(full + i, 1)", "initBarrier(full + i, 2)"}},
    {stagedRing,
     {"ReleasedByOneTooMany", "memory.h", "initBarrier(empty + i, Consumers)",
      "initBarrier(empty + i, Consumers + 1)"}},
    {stagedRing,
     {"FewerBytesExpected", "memory.h", "arriveExpecting(full + stage(i), Elements * sizeof(T))",
      "arriveExpecting(full + stage(i), Elements * sizeof(T) - 16)"}},
    {stagedRing,
     {"MoreBytesExpected", "memory.h", "arriveExpecting(full + stage(i), Elements * sizeof(T))",
      "arriveExpecting(full + stage(i), Elements * sizeof(T) + 16)"}},
    {stagedRing,
     {"CopiedFromTheNextToken", "memory.h", "copyBulk(base + stage(i) * Elements, from,",
      "copyBulk(base + stage(i) * Elements, (const u8 *)from + 16,"}},
    {stagedRing,
     {"LastBytesNotCopied", "memory.h", "Elements * sizeof(T), full + stage(i));",
      "Elements * sizeof(T) - 16, full + stage(i));"}},
    {stagedRing,
     {"ReleasedBeforeAllLanesHaveRead", "memory.h", "release(i64 i) {\n    warpBarrier();",
      "release(i64 i) {"}},
    {stagedRing,
     {"ReleasedByEveryLane", "memory.h",
      "release(i64 i) {\n    warpBarrier();\n    if (laneId() == 0)",
      "release(i64 i) {\n    warpBarrier();"}},
    {stagedRing, {"BarriersNotFenced", "memory.h", "      fenceBarriers();\n", "\n"}},
    {stagedRing,
     {"FullStageNotWaitedFor", "memory.h", "    waitFor(full + stage(i), parity(i));\n", "\n"}},
    {stagedRing,
     {"StoredByEveryLane", "memory.h", "  if (laneId() == 0)\n    storeAt(p, value);",
      "  storeAt(p, value);"}},
    {stagedRing, {"PlacesOneTooFar", "memory.h", "(1u << laneId()) - 1", "(2u << laneId()) - 1"}},
    // Tensor memory and its gates.
    {tensorGates,
     {"HalfOfTheColumnsAllocated", "tensor.h", "Columns);\n  tensorFenceBefore();\n  barrier();",
      "Columns / 2);\n  tensorFenceBefore();\n  barrier();"}},
    {tensorGates,
     {"HalfOfTheColumnsFreed", "tensor.h", "    tensorFree(address, Columns);",
      "    tensorFree(address, Columns / 2);"}},
    {tensorGates,
     {"FreedBeforeAllAreDone", "tensor.h",
      "void freeTensorMemory(u32 address) {\n  tensorFenceBefore();\n  barrier();",
      "void freeTensorMemory(u32 address) {\n  tensorFenceBefore();"}},
    {tensorGates, {"LoadsNotWaitedFor", "tensor.h", "  waitTensorLoads(words);\n", "\n"}},
    {tensorGates,
     {"KeysNotWaitedFor", "tensor.h",
      "words);\n  waitTensorStores();\n}\nM3_INLINE void tensorKeys(",
      "words);\n}\nM3_INLINE void tensorKeys("}},
    {tensorGates,
     {"FilledByOneTooFew", "tensor.h", "initBarrier(full + i, fills)",
      "initBarrier(full + i, fills > 1 ? fills - 1 : 1)"}},
    {tensorGates,
     {"DrainedByOneTooFew", "tensor.h", "initBarrier(empty + i, drains)",
      "initBarrier(empty + i, drains > 1 ? drains - 1 : 1)"}},
    {tensorGates, {"GatesNotFenced", "tensor.h", "      fenceBarriers();\n", "\n"}},
    {tensorGates,
     {"CommittedByEveryLane", "tensor.h", "    if (laneId() == 0)\n      Kind::commit(barrier);",
      "      Kind::commit(barrier);"}},
    {tensorGates,
     {"DrainTellsTheNextStage", "tensor.h", "commitEmpty(i64 i) { commit(empty + stage(i)); }",
      "commitEmpty(i64 i) { commit(empty + stage(i + 1)); }"}},
    {tensorGates,
     {"FillTellsTheNextStage", "tensor.h", "commitFull(i64 i) { commit(full + stage(i)); }",
      "commitFull(i64 i) { commit(full + stage(i + 1)); }"}},
    {tensorGates,
     {"SecondRoundNotWaitedFor", "tensor.h",
      "waitEmpty(i64 i) { waitFor(empty + stage(i), parity(i) ^ 1); }",
      "waitEmpty(i64 i) {\n    if (i >= 2 * Stages)\n      waitFor(empty + stage(i), parity(i) ^ "
      "1);\n  }"}},
    // Counters in LDS.
    {countedRing,
     {"TakenOneReleaseTooEarly", "memory.h", "round(i) * Consumers);",
      "round(i) * Consumers - (round(i) > 0));"}},
    {countedRing,
     {"FilledOneUseTooEarly", "memory.h", "round(i) + 1);\n    return base",
      "round(i));\n    return base"}},
    {countedRing, {"CopiesNotWaitedFor", "memory.h", "    waitForCopies();\n", "\n"}},
    {countedRing,
     {"ToldBeforeAllLanesHaveWaited", "memory.h", "    waitForCopies();\n    warpBarrier();\n",
      "    waitForCopies();\n"}},
    {countedRing,
     {"ReleasedBeforeAllLanesHaveRead", "memory.h",
      "  M3_INLINE void release(i64 i) {\n    warpBarrier();",
      "  M3_INLINE void release(i64 i) {"}},
    {countedRing,
     {"CountersNotStarted", "memory.h", "if (threadNumber() < 2 * Stages)",
      "if (threadNumber() < Stages)"}},
    {countedRing,
     {"LanesSwapped", "memory.h", "from + at + 16 * laneId()", "from + at + 16 * (laneId() ^ 1)"}},
    {countedRing,
     {"LastBytesNotCopied", "memory.h", "at < bytes; at += copyBytes)",
      "at < bytes - copyBytes; at += copyBytes)"}},
    {countedRing,
     {"CountedTwice", "memory.h", "      raise(filled + stage(i), 1);",
      "      raise(filled + stage(i), 2);"}},
};

class RingFaults : public testing::TestWithParam<RingFault> {};

TEST_P(RingFaults, AreFound) {
  const auto &[kernel, fault] = GetParam();
  KernelProgram built = sound(kernel);
  plant(built, kernel.chip, fault);
  for (uint64_t seed : {1, 2, 3})
    EXPECT_NE(foundIn(built, kernel, seed), "") << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Planted, RingFaults, testing::ValuesIn(rows),
                         [](const testing::TestParamInfo<RingFault> &info) {
                           return std::string(info.param.kernel.chip) + "_" + info.param.fault.name;
                         });

TEST(RingFaultsNone, NothingIsFoundWithoutAFault) {
  for (const Kernel *kernel : {&stagedRing, &tensorGates, &countedRing}) {
    KernelProgram built = sound(*kernel);
    for (uint64_t seed : {1, 2, 3})
      EXPECT_EQ(foundIn(built, *kernel, seed), "") << kernel->chip << ", seed " << seed;
  }
}

} // namespace
