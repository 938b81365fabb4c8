// Planted faults of registers that warps give each other (PTX ISA, "setmaxnreg").
#include "tests/unit/emulator/Faults.h"

namespace m3c::test {

namespace {

/// Four warps take the registers that four others give up, and these say so twice. Two work items
/// of 256 threads begin with 128 for each thread.
constexpr const char *budgets = R"(#include "tile.h"
extern "C" __global__ __launch_bounds__(256, 2) void budgets(u32 *data) {
  u32 *shared = (u32 *)sharedMemory();
  if (warpId() < 4) { // role take
#if defined(RegistersTakenBelowThoseThereAre)
    takeRegisters<120>();  // tile.role
#elif defined(RegistersBeyondTheLaunch)
    takeRegisters<224>();  // tile.role
#elif defined(RegistersOutOfRange)
    takeRegisters<264>();  // tile.role
#elif defined(RegistersOfThreeWarps)
    if (warpId() != 2)
      takeRegisters<208>();  // tile.role
#elif defined(RegistersThatDifferInAGroup)
    if (warpId() != 2)
      takeRegisters<208>();  // tile.role
    else
      takeRegisters<200>();  // tile.role
#else
    takeRegisters<208>();  // tile.role
#endif
    storeAt(shared + threadIdx.x, loadAt(data + threadIdx.x) * 3);
  } else { // role give
#if defined(RegistersGivenAboveThoseThereAre)
    giveRegisters<136>();  // tile.role
#elif defined(RegistersThatDifferInAWarp)
    if (laneId() < 16)
      giveRegisters<40>();  // tile.role
    else
      giveRegisters<48>();  // tile.role
#elif defined(RegistersChangedByFewerThanAGroup)
    m3emu::self()->calls->setRegisters(m3emu::self(), "setmaxnreg.dec", 40, 16, false);
#elif !defined(RegistersThatNobodyGives)
    giveRegisters<40>();  // tile.role
#endif
    storeAt(shared + threadIdx.x, loadAt(data + threadIdx.x) * 5);
#if !defined(RegistersChangedAgainTooSoon)
    barrierOf(1, 128);
#endif
#if !defined(RegistersThatNobodyGives)
    giveRegisters<40>();  // tile.role
#endif
  }
  barrier();
  storeAt(data + threadIdx.x, loadAt(shared + (threadIdx.x + 128) % 256));
}
)";

/// Nobody says how many registers a thread begins with.
constexpr const char *uncapped = R"(#include "tile.h"
extern "C" __global__ __launch_bounds__(128) void uncapped(u32 *data) {
#if defined(RegistersWithoutACap)
  giveRegisters<40>();
#endif
  storeAt(data + threadIdx.x, loadAt(data + threadIdx.x) * 3);
}
)";

} // namespace

const std::vector<BenchKernel> &registerKernels() {
  static const std::vector<BenchKernel> all = {{"budgets", budgets, 256, 1024},
                                               {"uncapped", uncapped, 128, 0}};
  return all;
}

const std::vector<PlantedFault> &registerFaults() {
  static const std::vector<PlantedFault> all = {
      {"RegistersWithoutACap", "uncapped", "names no work items of a multiprocessor", "Registers<"},
      {"RegistersTakenBelowThoseThereAre", "budgets", "increases its registers to 120 and has 128",
       "role take at tile.role"},
      {"RegistersGivenAboveThoseThereAre", "budgets", "decreases its registers to 136 and has 128",
       "role give at tile.role"},
      {"RegistersBeyondTheLaunch", "budgets",
       "waits for 96 registers more of each thread (setmaxnreg.inc to 224)",
       "role take at tile.role"},
      {"RegistersOutOfRange", "budgets", "asks for 264 registers, which are multiples of 8",
       "role take at tile.role"},
      {"RegistersOfThreeWarps", "budgets", "and has not changed its registers (setmaxnreg.inc)",
       ""},
      {"RegistersThatDifferInAGroup", "budgets", " of its group for ", ""},
      {"RegistersThatDifferInAWarp", "budgets", "another lane of its warp for ", ""},
      {"RegistersChangedByFewerThanAGroup", "budgets", "registers are changed by 16 together",
       "setRegisters("},
      {"RegistersThatNobodyGives", "budgets", "no warp that goes on gives up any",
       "role take at tile.role"},
      {"RegistersChangedAgainTooSoon", "budgets", "changes registers again",
       "role give at tile.role"},
  };
  return all;
}

} // namespace m3c::test
