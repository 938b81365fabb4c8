// Planted faults of kernels with tensor memory.
#include "tests/unit/emulator/Faults.h"

namespace m3c::test {

namespace {

/// Four warps bring a left operand into tensor memory, two stages of it; one multiplies; four add
/// the products up.
constexpr const char *multiplied = R"(#include "tile.h"
M3_INLINE void waitFor(u64 *barrier, u32 parity) {
  while (!phaseEnded(barrier, parity)) {
  }
}
M3_INLINE void arriveOnce(u64 *barrier) {
  warpBarrier();
  if (laneId() == 0)
    arriveAt(barrier);
}
extern "C" __global__ void multiplied(u32 *data) {
  u8 *right = sharedMemory(); // 16 rows of 128 bytes, swizzled
  u64 *full = (u64 *)(right + 2048), *empty = full + 2, *done = full + 4, *unread = full + 6;
  u32 *address = (u32 *)(full + 8);
  for (int i = threadIdx.x; i < 512; i += 288) {
    const int row = i / 32, byte = i % 32 * 4;
    storeAt((u32 *)(right + row * 128 + (byte ^ row % 8 * 16)), loadAt(data + i) & 0x37373737u);
  }
#if !defined(OperandProxyFenceMissing)
  fenceForProducts();
#endif
  if (warpId() == 8)
    tensorAllocate(address, 128);
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      initBarrier(full + s, 4), initBarrier(empty + s, 1);
      initBarrier(done + s, 1), initBarrier(unread + s, 4);
    }
    fenceBarriers();
  }
  tensorFenceBefore();
  barrier();
  tensorFenceAfter();
  const u32 base = loadAt(address), lanes = (u32)(warpId() % 4 * 32) << 16;
#if defined(TensorOverlap)
  const u32 sums = 56;
#else
  const u32 sums = 64;
#endif
  if (warpId() < 4) { // role fill
    for (int i = 0; i < 4; ++i) {
#if !defined(TensorRingTooShallow)
      waitFor(empty + i % 2, (i / 2 & 1) ^ 1);
      tensorFenceAfter();
#endif
      u32 v[32];
      for (int c = 0; c < 32; ++c)
        v[c] = loadAt(data + (threadIdx.x + i * 37 + c * 5) % 1024) & 0x37373737u;
#if !defined(TensorUnwritten)
      tensorStore(base + lanes + i % 2 * 32, v);
#endif
#if !defined(TensorStoreNotWaitedFor)
      waitTensorStores();
#endif
#if !defined(TensorFenceBeforeMissing)
      tensorFenceBefore();
#endif
      arriveOnce(full + i % 2);
    }
#if defined(OperandOverwritten)
    storeAt((u32 *)right + threadIdx.x, 0);
#endif
#if !defined(CommitsOutliveTheWorkItem)
    for (int i = 4; i < 6; ++i) // what was committed has ended
      waitFor(empty + i % 2, (i / 2 & 1) ^ 1);
#endif
  } else if (warpId() == 4) { // role multiply
    for (int i = 0; i < 4; ++i) {
      waitFor(full + i % 2, i / 2 & 1);
      waitFor(unread + i % 2, (i / 2 & 1) ^ 1);
#if !defined(TensorFenceAfterMissing)
      tensorFenceAfter();
#endif
      if (laneId() == 0) {
        for (u32 k = 0; k < 4; ++k) {
          const u64 b = (u64)(sharedAddress(right) + 32 * k) >> 4 | (u64)1 << 16 | (u64)64 << 32 |
                        (u64)1 << 46 | (u64)2 << 61;
#if defined(TensorNotAllocated)
          const u32 left = base + 120 + 8 * k;
#else
          const u32 left = base + i % 2 * 32 + 8 * k;
#endif
          tensorMmaE4m3(base + sums + i % 2 * 16, left, b, 1u << 4 | 2u << 17 | 8u << 24, k > 0);
        }
#if !defined(ProductNotCommitted)
        tensorCommit(done + i % 2);
#endif
        tensorCommit(empty + i % 2);
      }
    }
  } else { // role add
    f32 sum = 0;
    for (int i = 0; i < 4; ++i) {
#if defined(ProductPhaseTakenForAnother)
      waitFor(done + i % 2, 0);
#elif !defined(ProductNotWaitedFor)
      waitFor(done + i % 2, i / 2 & 1);
#endif
#if !defined(ProductFenceAfterMissing)
      tensorFenceAfter();
#endif
      u32 v[16];
#if defined(LanesOfAnotherWarp)
      tensorLoad(v, base + sums + i % 2 * 16);
#else
      tensorLoad(v, base + lanes + sums + i % 2 * 16);
#endif
#if !defined(TensorLoadNotWaitedFor)
      waitTensorLoads(v);
#endif
      for (int c = 0; c < 16; ++c)
        sum += bitsAs<f32>(v[c]) * (f32)(c + 1);
#if !defined(TensorLoadFenceMissing)
      tensorFenceBefore();
#endif
      arriveOnce(unread + i % 2);
    }
    storeAt(data + (warpId() - 5) * 32 + laneId(), bitsAs<u32>(sum));
  }
  tensorFenceBefore();
  barrier();
#if !defined(TensorNotFreed)
  if (warpId() == 0) {
    tensorFenceAfter();
    tensorFree(base, 128);
  }
#endif
}
)";

} // namespace

const std::vector<BenchKernel> &tensorKernels() {
  static const std::vector<BenchKernel> all = {
      {"multiplied", multiplied, 288, 2048 + 72, {1, 1, 1}, 1, "sm100"}};
  return all;
}

const std::vector<PlantedFault> &tensorFaults() {
  static const std::vector<PlantedFault> all = {
      {"OperandProxyFenceMissing", "multiplied", "with no proxy fence between", "tensorMmaE4m3"},
      {"TensorOverlap", "multiplied", "", ""},
      {"TensorRingTooShallow", "multiplied", "", ""},
      {"TensorUnwritten", "multiplied", "which nothing has written", "tensorMmaE4m3"},
      {"TensorStoreNotWaitedFor", "multiplied", "stored: no wait for its stores", "tensorMmaE4m3"},
      {"TensorFenceBeforeMissing", "multiplied", "or no fences between", "tensorMmaE4m3"},
      {"TensorFenceAfterMissing", "multiplied", "or no fences between", "tensorMmaE4m3"},
      {"OperandOverwritten", "multiplied", "", ""},
      {"TensorNotAllocated", "multiplied", "of tensor memory, which", "tensorMmaE4m3"},
      {"ProductNotCommitted", "multiplied", "no thread can go on", ""},
      {"ProductPhaseTakenForAnother", "multiplied", "", "waitFor(done"},
      {"ProductNotWaitedFor", "multiplied", "of tensor memory, which", "tensorLoad"},
      {"ProductFenceAfterMissing", "multiplied", "or no fence stands after the wait", "tensorLoad"},
      {"LanesOfAnotherWarp", "multiplied", "reaches lanes", "tensorLoad"},
      {"TensorLoadNotWaitedFor", "multiplied", "", ""},
      {"TensorLoadFenceMissing", "multiplied", "loads: no wait for its loads", "tensorMmaE4m3"},
      {"CommitsOutliveTheWorkItem", "multiplied", "is to be told of products", ""},
      {"TensorNotFreed", "multiplied", "ends with 128 columns of tensor memory", ""},
  };
  return all;
}

} // namespace m3c::test
