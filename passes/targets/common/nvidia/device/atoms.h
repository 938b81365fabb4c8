// Instructions without a spelling in CUDA C++. Inline assembly stands in this file alone.
#pragma once

#include "vector.h"

/// PTX ISA, "mma": acc += a · b, m16n8k16, BF16 operands, FP32 sums.
M3_INLINE void mmaBf16(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// PTX ISA, "mma": the same with FP16 operands.
M3_INLINE void mmaF16(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// PTX ISA, "mul": two BF16 products, nearest even, subnormals kept.
M3_INLINE u32 multiplyBf16(u32 a, u32 b) {
  u32 product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

/// PTX ISA, "ld.global": memory that is used once, past the first-level cache. Not "nc": such loads
/// ptxas moves behind a wait for the launch before (seen in the SASS of 13.5), and these stand in
/// front of it.
M3_INLINE int4 loadOnce(const int4 *p) {
  int4 v;
  asm volatile("ld.global.L1::no_allocate.v4.s32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
M3_INLINE u16 loadOnce(const u16 *p) {
  u16 v;
  asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}

/// PTX ISA, "prefetch": one line of global memory into the second-level cache.
M3_INLINE void prefetchLine(const u8 *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/// PTX ISA, "griddepcontrol": the launch before has ended and its stores are seen; the next one may
/// begin once all blocks have come to the second.
M3_INLINE void awaitLaunch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
M3_INLINE void allowLaunch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/// PTX ISA, "%cluster_ctarank".
M3_INLINE u32 rankInCluster() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// PTX ISA, "barrier.cluster": all threads of the cluster; stores before it are seen after it.
M3_INLINE void clusterArriveAndWait() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

/// The halves of it for threads that only tell that they have come: stores are not ordered.
M3_INLINE void arriveAtCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
M3_INLINE void awaitCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// PTX ISA, "mapa": the generic address of the same shared byte in another block of the cluster.
M3_INLINE u64 sharedOfRank(u64 address, u32 rank) {
  u64 mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(address), "r"(rank));
  return mapped;
}

/// A number that stays in its register: without it compilers compute what depends on the lane
/// alone again at every use.
M3_INLINE i32 settled(i32 number) {
  asm("" : "+r"(number));
  return number;
}

/// PTX ISA, "prmt": byte i of the result is byte `selector` nibble i (0 … 7) of a, b; with 8 added
/// to the nibble its sign, eight times.
M3_INLINE u32 permuteBytes(u32 a, u32 b, u32 selector) {
  u32 bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
  return bytes;
}

/// PTX ISA, "cvt": the two E4M3 codes in the low or high half of a word to FP16, exact.
M3_INLINE u32 f16OfE4m3Low(u32 codes) {
  u32 pair;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }"
      : "=r"(pair)
      : "r"(codes));
  return pair;
}
M3_INLINE u32 f16OfE4m3High(u32 codes) {
  u32 pair;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high; }"
      : "=r"(pair)
      : "r"(codes));
  return pair;
}
/// PTX ISA, "cvt": the FP16 in the low or high half of a word, exact.
M3_INLINE f32 f32OfF16Low(u32 pair) {
  f32 value;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }"
      : "=f"(value)
      : "r"(pair));
  return value;
}
M3_INLINE f32 f32OfF16High(u32 pair) {
  f32 value;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }"
      : "=f"(value)
      : "r"(pair));
  return value;
}
/// PTX ISA, "cvt": two FP32 to E4M3, nearest even, saturating, NaN 0x7f; `low` in the low byte.
M3_INLINE u32 packE4m3(f32 low, f32 high) {
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
/// PTX ISA, "cvt": two FP32 to FP16 or BF16, nearest even, `low` in the low half.
M3_INLINE u32 packF16(f32 low, f32 high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
M3_INLINE u32 packBf16(f32 low, f32 high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// PTX ISA, "ex2": 2^x within 2^-22 relative, subnormal results are 0.
M3_INLINE f32 exponential2(f32 x) {
  f32 power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
/// PTX ISA, "max": NaN if one of them is.
M3_INLINE f32 maximumOrNan(f32 a, f32 b) {
  f32 larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

/// PTX ISA, "setmaxnreg": each thread of this warpgroup, four warps that all come here, has `count`
/// registers from here on: more than before, once others of the work item have given up as many, or
/// fewer. The kernel must say in __launch_bounds__ how many work items a multiprocessor is to hold.
template <u32 count> M3_INLINE void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <u32 count> M3_INLINE void giveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

//===- Barriers in shared memory and copies that arrive on them
//---------------------------------===//

/// PTX ISA, "bar.sync": `threads` threads, a multiple of 32, have reached barrier `id`.
M3_INLINE void barrierOf(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

M3_INLINE u32 sharedAddress(const void *p) { return (u32)__cvta_generic_to_shared(p); }

/// PTX ISA, "mbarrier.init": a phase ends with `arrivals` arrivals.
M3_INLINE void initBarrier(u64 *barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}
/// Adds one; the number before. Who counts later sees what this work item's threads stored before a
/// barrier in front of it, in all threads behind the next barrier (PTX ISA, "atom", .acq_rel, and
/// "Causality order"). On an H200 two fences around a relaxed addition take 0.3 µs more.
M3_INLINE i32 countIn(i32 *counter) {
  i32 before;
  asm volatile("atom.acq_rel.gpu.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

/// PTX ISA, "fence.mbarrier_init": barriers that this thread made are seen by copies.
M3_INLINE void fenceBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// PTX ISA, "mbarrier.arrive".
M3_INLINE void arriveAt(u64 *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(barrier)) : "memory");
}
/// PTX ISA, "mbarrier.arrive.expect_tx": arrives; the phase ends when `bytes` more were copied.
M3_INLINE void arriveExpecting(u64 *barrier, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
/// PTX ISA, "mbarrier.try_wait": whether the phase of that parity has ended; waits a while.
M3_INLINE bool phaseEnded(u64 *barrier, u32 parity) {
  u32 ended;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, "
      "0, p; }"
      : "=r"(ended)
      : "r"(sharedAddress(barrier)), "r"(parity)
      : "memory");
  return ended;
}
/// PTX ISA, "cp.async.bulk": `bytes` (a multiple of 16) from global to shared memory, counted by
/// the barrier.
M3_INLINE void copyBulk(void *to, const void *from, u32 bytes, u64 *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(sharedAddress(to)),
               "l"(from), "r"(bytes), "r"(sharedAddress(barrier))
               : "memory");
}
