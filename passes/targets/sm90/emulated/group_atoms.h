// The emulator's form of device/group_atoms.h, from the PTX ISA. Sums of a product are taken to be
// made as those of mma.sync: 16 products and the accumulator at once (m3emu::fusedSum).
#pragma once

#include "atoms.h"

/// Registers are settled by themselves here.
template <int N> M3_INLINE void settleSums(f32 (&acc)[N][4]) { (void)acc; }

M3_INLINE void fenceProducts() {
  m3emu::Thread *t = m3emu::self();
  t->calls->meet(
      t, "wgmma.fence", ~0ul,
      [](void *const *) { m3emu::self()->calls->groupFence(m3emu::self()); }, false);
}
template <int N> M3_INLINE void fenceProducts(f32 (&acc)[N][4]) {
  settleSums(acc);
  fenceProducts();
}
M3_INLINE void commitProducts() {
  m3emu::Thread *t = m3emu::self();
  t->calls->meet(
      t, "wgmma.commit_group", ~0ul,
      [](void *const *) { m3emu::self()->calls->groupCommit(m3emu::self()); }, false);
}
struct GroupSums {
  f32 *sums;
};
template <int leaves, int N> M3_INLINE void awaitProducts(f32 (&acc)[N][4]) {
  GroupSums mine = {&acc[0][0]};
  m3emu::together<GroupSums, [](GroupSums *const *lanes) {
    m3emu::Thread *t = m3emu::self();
    f32 *sums[32];
    for (int lane = 0; lane < 32; ++lane)
      sums[lane] = lanes[lane]->sums;
    t->calls->groupWait(t, leaves, sums, 4 * N);
  }>("wgmma.wait_group", mine);
}

struct GroupOperands {
  f32 *sums;
  const u32 *a;
  u64 right;
};
template <class Format = m3emu::Bf16, int N>
M3_INLINE void multiplyByGroup(f32 (&acc)[N][4], const u32 (&a)[4], u64 right) {
  GroupOperands mine = {&acc[0][0], a, right};
  m3emu::together<GroupOperands, [](GroupOperands *const *lanes) {
    m3emu::Thread *t = m3emu::self();
    m3emu::GroupProduct product = {
        8 * N, lanes[0]->right, {}, {}, m3emu::fusedSum<Format, Format, 16, 25>};
    for (int lane = 0; lane < 32; ++lane) {
      if (lanes[lane]->right != product.b)
        t->calls->fail(t, "names a right operand that other lanes of its warp do not");
      product.a[lane] = lanes[lane]->a;
      product.sums[lane] = lanes[lane]->sums;
    }
    t->calls->groupMultiply(t, product);
  }>("wgmma.mma_async", mine);
}
template <int N> M3_INLINE void beginSums(f32 (&acc)[N][4]) {
  M3_UNROLL for (int n = 0; n < N; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) acc[n][i] = 0;
}
M3_INLINE void multiplyShared(f32 (&acc)[8][4], const u32 (&a)[4], u64 right) {
  multiplyByGroup(acc, a, right);
}
template <bool adds = true>
M3_INLINE void multiplyShared(f32 (&acc)[16][4], const u32 (&a)[4], u64 right) {
  if (!adds)
    beginSums(acc);
  multiplyByGroup(acc, a, right);
}
M3_INLINE void multiplyShared(f32 (&acc)[32][4], const u32 (&a)[4], u64 right) {
  multiplyByGroup(acc, a, right);
}

template <bool adds>
M3_INLINE void multiplyValues(f32 (&acc)[17][4], const u32 (&a)[4], u64 right) {
  if (!adds)
    beginSums(acc);
  multiplyByGroup<m3emu::F16>(acc, a, right);
}

M3_INLINE void fenceForProducts() {
  m3emu::Thread *t = m3emu::self();
  t->calls->fenceProxy(t);
}

M3_INLINE u32 bf16OfF16(u32 pair) { return packBf16(f32OfF16Low(pair), f32OfF16High(pair)); }
