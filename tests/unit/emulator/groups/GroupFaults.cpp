// Planted faults of products that four warps start together (PTX ISA, "wgmma").
#include "tests/unit/emulator/Faults.h"

namespace m3c::test {

namespace {

/// Four warps multiply with stages of 64 rows that a fifth one brings, as printed kernels do: the
/// stage of a product is released when the next one has started and the first has ended.
constexpr const char *products = R"(#include "tile.h"
extern "C" __global__ __launch_bounds__(160) void products(u32 *data) {
  auto ring = AsyncRing<u16, 3, 4096, 4>((u16 *)sharedMemory());
  barrier();
  if (warpId() < 4) { // role multiply
    auto acc = fill<FragmentAcc<64>>(0.0f);
    for (i64 i = 0; i < 6; ++i) {
      FragmentA a;
      M3_UNROLL for (int s = 0; s < 4; ++s) M3_UNROLL for (int j = 0; j < 4; ++j)
        a.v[s][j] = 0x3f803f80u + 0x40u * (u32)(laneId() + s + j + i);
#if defined(GroupStageNotWaitedFor)
      auto stage = ring.base + i % 3 * 4096;
#else
      auto stage = ring.wait(i);
#endif
      u64 right = sharedOperand(stage);
#if defined(GroupDescriptorWithoutItsSwizzle)
      right &= ~((u64)3 << 62);
#endif
#if defined(GroupRowsFarApart)
      right += (u64)1024 << 32;
#endif
#if defined(GroupLanesThatDisagree)
      right += laneId() == 7 ? 2 : 0;
#endif
#if !defined(GroupFenceLeftOut)
      fenceProducts(acc.v);
#endif
#if defined(GroupOfThreeWarps)
      if (warpId() != 2)
#endif
      M3_UNROLL for (int s = 0; s < 4; ++s) {
#if defined(GroupWarpsThatDisagree)
        const int from = warpId() == 3 ? s ^ 1 : s;
#else
        const int from = s;
#endif
        multiplyShared(acc.v, a.v[s], right + from * 2); // tile.mma_shared
#if defined(GroupSumsUsedMeanwhile)
        acc.v[3][1] = 2;
#endif
      }
#if !defined(GroupCommitLeftOut)
      commitProducts();
#endif
#if defined(GroupStageReleasedTooSoon)
      ring.release(i);
      acc = awaitShared<1>(acc);
#else
      acc = awaitShared<1>(acc);
      if (i > 0)
        ring.release(i - 1);
#endif
    }
#if defined(GroupWaitLeftOut)
    if (laneId() < 32) {
#else
    acc = awaitShared<0>(acc);
    {
#endif
      f32 sum = 0;
      M3_UNROLL for (int n = 0; n < 8; ++n) M3_UNROLL for (int i = 0; i < 4; ++i)
        sum += acc.v[n][i];
      storeAt(data + threadIdx.x, bitsAs<u32>(sum));
    }
  } else { // role load
    for (i64 i = 0; i < 6; ++i) {
      u16 *stage = ring.acquire(i);
      if (laneId() == 0) {
        copyBulk(stage, data, 4096, ring.full + i % 3); // tile.fill_stage
        copyBulk(stage + 2048, data, 4096, ring.full + i % 3);
      }
    }
  }
}
)";

} // namespace

const std::vector<BenchKernel> &groupKernels() {
  static const std::vector<BenchKernel> all = {{"products", products, 160, 3 * 8192 + 48}};
  return all;
}

const std::vector<PlantedFault> &groupFaults() {
  static const std::vector<PlantedFault> all = {
      {"GroupStageNotWaitedFor", "products", "lets the asynchronous proxy read byte ", ""},
      {"GroupDescriptorWithoutItsSwizzle", "products", "only the 128-byte swizzle", ""},
      {"GroupRowsFarApart", "products", "of the right operand)", ""},
      {"GroupLanesThatDisagree", "products", "other lanes of its warp do not", ""},
      {"GroupFenceLeftOut", "products", "with no wgmma.fence", ""},
      {"GroupOfThreeWarps", "products", "the 4 warps of a group start them together", ""},
      {"GroupWarpsThatDisagree", "products", "with other right operands", ""},
      {"GroupSumsUsedMeanwhile", "products", "changed while a product had them", ""},
      {"GroupCommitLeftOut", "products", "that it has not committed", ""},
      {"GroupStageReleasedTooSoon", "products", "writes byte ", "role load"},
      {"GroupWaitLeftOut", "products", "ends while a product that it has started", ""},
  };
  return all;
}

} // namespace m3c::test
