// Planted faults of kernels whose products are of two work items of a cluster.
#include "tests/unit/emulator/Faults.h"

namespace m3c::test {

namespace {

/// Four warps of each bring a left operand into tensor memory and add the products up; a fifth one
/// of the first multiplies for both.
constexpr const char *paired = R"(#include "tile.h"
M3_INLINE void waitFor(u64 *barrier, u32 parity) {
  while (!phaseEndedInCluster(barrier, parity)) {
  }
}
extern "C" __global__ void paired(u32 *data) {
  u8 *right = sharedMemory(); // 8 of 16 rows of 128 bytes, swizzled
  u64 *full = (u64 *)(right + 1024), *done = full + 1, *last = full + 2;
  u32 *address = (u32 *)(full + 3);
  const u32 rank = rankInCluster();
  for (int i = threadIdx.x; i < 256; i += 160) {
    const int row = i / 32, byte = i % 32 * 4;
    storeAt((u32 *)(right + row * 128 + (byte ^ row % 8 * 16)),
            loadAt(data + rank * 256 + i) & 0x37373737u);
  }
#if defined(PairProxyFenceMissing)
  if (rank == 0)
#endif
    fenceForProducts();
#if defined(PairPeerDoesNotAllocate)
  if (warpId() == 4 && rank == 0)
#else
  if (warpId() == 4)
#endif
    pairAllocate(address, 64);
  if (threadIdx.x == 0) {
    initBarrier(full, 8), initBarrier(done, 1), initBarrier(last, 1);
    fenceBarriers();
  }
  tensorFenceBefore();
#if defined(PairClusterBarrierMissing)
  barrier();
#else
  clusterBarrier();
#endif
  tensorFenceAfter();
  const u32 base = loadAt(address), lanes = (u32)(warpId() % 4 * 32) << 16;
  if (warpId() < 4) { // role fill
    f32 sum = 0;
    for (int i = 0; i < 4; ++i) {
      u32 v[32];
      for (int c = 0; c < 32; ++c)
        v[c] = loadAt(data + (threadIdx.x + rank * 61 + i * 37 + c * 5) % 1024) & 0x37373737u;
      tensorStore(base + lanes, v);
      waitTensorStores();
#if defined(PairFenceBeforeMissing)
      if (rank == 0)
#endif
        tensorFenceBefore();
      warpBarrier();
#if defined(PairSignalStays)
      if (laneId() == 0)
        arriveAtRank(full, rank);
#else
      if (laneId() == 0)
        arriveAtRank(full, 0);
#endif
#if defined(PairOperandOverwritten)
      if (rank == 1)
        storeAt((u32 *)right + threadIdx.x, 0);
#endif
#if defined(PairPeerLeaves)
      if (rank == 1 && i == 3)
        return;
#endif
      waitFor(done, i & 1);
      tensorFenceAfter();
      u32 sums[16];
      tensorLoad(sums, base + lanes + 32);
      waitTensorLoads(sums);
      for (int c = 0; c < 16; ++c)
        sum += bitsAs<f32>(sums[c]) * (f32)(c + 1);
    }
    storeAt(data + rank * 128 + threadIdx.x, bitsAs<u32>(sum));
  }
#if defined(PairPeerLeaves)
  if (rank == 1)
    return;
#endif
#if defined(PairStartedByTheOther)
  if (warpId() == 4 && rank == 1) { // role multiply
#else
  if (warpId() == 4 && rank == 0) { // role multiply
#endif
    for (int i = 0; i < 4; ++i) {
#if !defined(PairStartedByTheOther)
      waitFor(full, i & 1);
#endif
      tensorFenceAfter();
      if (laneId() == 0) {
        for (u32 k = 0; k < 4; ++k) {
          const u64 b = (u64)(sharedAddress(right) + 32 * k) >> 4 | (u64)1 << 16 | (u64)64 << 32 |
                        (u64)1 << 46 | (u64)2 << 61;
          pairMmaE4m3(base + 32, base + 8 * k, b, 1u << 4 | 2u << 17 | 16u << 24, k > 0);
        }
#if defined(PairMulticastLeavesOneOut)
        pairCommit(done, 1);
#elif defined(PairMulticastTooWide)
        pairCommit(done, 7);
#elif defined(PairGroupsMixed)
        tensorCommit(done);
#else
        pairCommit(done, 3);
#endif
        if (i == 3)
          pairCommit(last, 3);
      }
    }
    waitFor(last, 0);
#if defined(PairCommitNobodyWaitsFor)
  } else if (warpId() == 4 && rank == 2) {
#else
  } else if (warpId() == 4) {
#endif
    waitFor(last, 0);
  }
  tensorFenceBefore();
  clusterBarrier();
#if !defined(PairNotFreed)
  if (warpId() == 0) {
    tensorFenceAfter();
    pairFree(base, 64);
  }
#endif
}
)";

} // namespace

const std::vector<BenchKernel> &pairKernels() {
  static const std::vector<BenchKernel> all = {
      {"paired", paired, 160, 1024 + 32, {2, 1, 1}, 2, "sm100"}};
  return all;
}

const std::vector<PlantedFault> &pairFaults() {
  static const std::vector<PlantedFault> all = {
      {"PairPeerDoesNotAllocate", "paired", "the other work item of its pair", ""},
      {"PairProxyFenceMissing", "paired", "with no proxy fence between", "pairMmaE4m3"},
      {"PairClusterBarrierMissing", "paired", "", ""},
      {"PairFenceBeforeMissing", "paired", "or no fences between", "pairMmaE4m3"},
      {"PairSignalStays", "paired", "no thread can go on", ""},
      {"PairOperandOverwritten", "paired", "", ""},
      {"PairPeerLeaves", "paired", "end", ""},
      {"PairStartedByTheOther", "paired", "for the even one of the two to do", "pairMmaE4m3"},
      {"PairMulticastLeavesOneOut", "paired", "no thread can go on", ""},
      {"PairMulticastTooWide", "paired", "work item 2 of a cluster of 2", "pairCommit"},
      {"PairGroupsMixed", "paired", "are of one .cta_group", "tensorCommit"},
      {"PairCommitNobodyWaitsFor", "paired", "where nobody has waited for them", ""},
      {"PairNotFreed", "paired", "ends with 64 columns of tensor memory", ""},
  };
  return all;
}

} // namespace m3c::test
