// Planted faults of waves of 64 lanes: stages that LDS-direct loads fill, counters that tell so.
#include "tests/unit/emulator/Faults.h"

namespace m3c::test {

namespace {

/// One wave brings stages past the registers, another one adds them up.
constexpr const char *stages = R"(#include "tile.h"
extern "C" __global__ M3_THREADS(128) void stages(u32 *data) {
  u32 *stage = (u32 *)sharedMemory();
  u32 *filled = (u32 *)(sharedMemory() + 2048), *released = filled + 2;
#if !defined(CounterNotStarted)
  if (threadNumber() < 4)
    startCounter(filled + threadNumber());
#endif
#if !defined(CountersUsedBeforeOthersSeeThem)
  barrier();
#endif
  if (warpId() == 0) { // role bring
    for (int i = 0; i < 4; ++i) {
      u32 *const to = stage + i % 2 * 256;
#if !defined(StageFilledBeforeItIsReleased)
      awaitCounter(released + i % 2, i / 2);
#endif
      copyToShared(to, data + i * 256 + 4 * laneId());
#if defined(StageReadByItsLoaderBeforeTheWait)
      storeAt(data + laneId(), loadAt(to + 4 * laneId()));
#endif
#if !defined(StageToldBeforeTheWait)
      waitForCopies();
#endif
#if !defined(StageToldBeforeAllLanesHaveWaited)
      warpBarrier();
#endif
      if (laneId() == 0)
        raise(filled + i % 2, 1);
#if defined(StageToldBeforeTheWait)
      waitForCopies();
#endif
    }
  } else { // role add
    u32 sum = 0;
    for (int i = 0; i < 4; ++i) {
#if defined(StageReadOneRoundTooEarly)
      awaitCounter(filled + i % 2, i / 2);
#else
      awaitCounter(filled + i % 2, i / 2 + 1);
#endif
      for (int at = 0; at < 4; ++at)
        sum += loadAt(stage + i % 2 * 256 + 64 * at + laneId());
#if !defined(StageReleasedBeforeAllLanesHaveRead)
      warpBarrier();
#endif
      if (laneId() == 0)
        raise(released + i % 2, 1);
    }
    storeAt(data + laneId(), sum);
  }
}
)";

/// Waves hand values round in LDS, lanes by permutations.
constexpr const char *permuted = R"(#include "tile.h"
extern "C" __global__ M3_THREADS(128) void permuted(u32 *data) {
  u32 *shared = (u32 *)sharedMemory();
  const int i = threadNumber(), next = (i + 64) % 128;
  storeAt(shared + i, loadAt(data + i));
#if !defined(LdsReadBeforeTheBarrier)
  barrier();
#endif
  u32 value = loadAt(shared + next);
#if defined(SelectorBeyondItsBytes)
  value += permuteBytes(value, value, 0x00010208u);
#endif
#if defined(LanesOfAWaveApart)
  if (laneId() < 32)
    value += valueOfFirst(value);
  else
    value += rotatedRow<1>(value);
#else
  value += valueOfFirst(value) + rotatedRow<1>(value);
#endif
  storeAt(data + i, permuteBytes(value, i, 0x07000102u));
}
)";

} // namespace

const std::vector<BenchKernel> &waveKernels() {
  static const std::vector<BenchKernel> all = {
      {"stages", stages, 128, 2048 + 16, {1, 1, 1}, 1, "gfx950"},
      {"permuted", permuted, 128, 512, {1, 1, 1}, 1, "gfx950"},
  };
  return all;
}

const std::vector<PlantedFault> &waveFaults() {
  static const std::vector<PlantedFault> all = {
      {"CounterNotStarted", "stages", "uses a counter at byte", "Counter("},
      {"CountersUsedBeforeOthersSeeThem", "stages", " of shared memory", "Counter("},
      {"StageFilledBeforeItIsReleased", "stages", "with no barrier between", ""},
      {"StageReadByItsLoaderBeforeTheWait", "stages",
       "before the copy that fills it was waited for", "loadAt(to"},
      {"StageToldBeforeTheWait", "stages", "reads byte", "loadAt(stage"},
      {"StageToldBeforeAllLanesHaveWaited", "stages", "reads byte", "loadAt(stage"},
      {"StageReadOneRoundTooEarly", "stages", "reads byte", "loadAt(stage"},
      {"StageReleasedBeforeAllLanesHaveRead", "stages", "with no barrier between", "copyToShared("},
      {"LdsReadBeforeTheBarrier", "permuted", "reads byte", "loadAt(shared"},
      {"SelectorBeyondItsBytes", "permuted", "selects a byte beyond 7", "permuteBytes("},
      {"LanesOfAWaveApart", "permuted", "while other lanes of its warp are at", ""},
  };
  return all;
}

} // namespace m3c::test
