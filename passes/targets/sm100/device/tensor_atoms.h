// Instructions of tensor memory, and the product of four codes, that CUDA C++ has no spelling for.
#pragma once

#include "atoms.h"

/// PTX ISA, "mul": four products of E2M1 and E4M3 codes as E4M3, nearest even, saturating; NaN
/// 0x7f.
M3_INLINE u32 multiplyE2m1E4m3(u16 codes, u32 scales) {
  u32 products;
  asm("mul.rn.satfinite.e4m3x4.e2m1x4.e4m3x4 %0, %1, %2;"
      : "=r"(products)
      : "h"(codes), "r"(scales));
  return products;
}

//===- Tensor memory --------------------------------------------------------------------------===//
// Addresses: lane in the high half, column in the low one.

/// PTX ISA, "tcgen05.alloc": `columns`, a power of two from 32 on; one warp asks, the address comes
/// into shared memory. "tcgen05.relinquish_alloc_permit": it will not ask again.
M3_INLINE void tensorAllocate(u32 *address, u32 columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(sharedAddress(address)),
      "r"(columns)
      : "memory");
}
/// PTX ISA, "tcgen05.dealloc".
M3_INLINE void tensorFree(u32 address, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns)
               : "memory");
}

/// PTX ISA, "tcgen05.fence": around what synchronises threads.
M3_INLINE void tensorFenceBefore() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
M3_INLINE void tensorFenceAfter() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
/// PTX ISA, "fence.proxy": what this thread wrote to shared memory is seen by products.
M3_INLINE void fenceForProducts() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// PTX ISA, "tcgen05.ld", "tcgen05.st", shape .32x32b: lane l of warp w has lane 32 (w mod 4) + l,
/// register i column i from the address on. Registers are loaded after the wait for them, stored
/// ones are there after theirs.
M3_INLINE void tensorLoad(u32 (&v)[16], u32 address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, [%16];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
                 "=r"(v[7]), "=r"(v[8]), "=r"(v[9]), "=r"(v[10]), "=r"(v[11]), "=r"(v[12]),
                 "=r"(v[13]), "=r"(v[14]), "=r"(v[15])
               : "r"(address));
}
M3_INLINE void waitTensorLoads(u32 (&v)[16]) {
  asm volatile("tcgen05.wait::ld.sync.aligned;"
               : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]), "+r"(v[4]), "+r"(v[5]), "+r"(v[6]),
                 "+r"(v[7]), "+r"(v[8]), "+r"(v[9]), "+r"(v[10]), "+r"(v[11]), "+r"(v[12]),
                 "+r"(v[13]), "+r"(v[14]), "+r"(v[15])::"memory");
}
M3_INLINE void tensorStore(u32 address, const u32 (&v)[16]) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], "
               "{%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16};" ::"r"(address),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]),
               "r"(v[7]), "r"(v[8]), "r"(v[9]), "r"(v[10]), "r"(v[11]), "r"(v[12]), "r"(v[13]),
               "r"(v[14]), "r"(v[15])
               : "memory");
}
M3_INLINE void tensorLoad(u32 (&v)[32], u32 address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
               "%23,%24,%25,%26,%27,%28,%29,%30,%31}, [%32];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
                 "=r"(v[7]), "=r"(v[8]), "=r"(v[9]), "=r"(v[10]), "=r"(v[11]), "=r"(v[12]),
                 "=r"(v[13]), "=r"(v[14]), "=r"(v[15]), "=r"(v[16]), "=r"(v[17]), "=r"(v[18]),
                 "=r"(v[19]), "=r"(v[20]), "=r"(v[21]), "=r"(v[22]), "=r"(v[23]), "=r"(v[24]),
                 "=r"(v[25]), "=r"(v[26]), "=r"(v[27]), "=r"(v[28]), "=r"(v[29]), "=r"(v[30]),
                 "=r"(v[31])
               : "r"(address));
}
M3_INLINE void waitTensorLoads(u32 (&v)[32]) {
  asm volatile("tcgen05.wait::ld.sync.aligned;"
               : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]), "+r"(v[4]), "+r"(v[5]), "+r"(v[6]),
                 "+r"(v[7]), "+r"(v[8]), "+r"(v[9]), "+r"(v[10]), "+r"(v[11]), "+r"(v[12]),
                 "+r"(v[13]), "+r"(v[14]), "+r"(v[15]), "+r"(v[16]), "+r"(v[17]), "+r"(v[18]),
                 "+r"(v[19]), "+r"(v[20]), "+r"(v[21]), "+r"(v[22]), "+r"(v[23]), "+r"(v[24]),
                 "+r"(v[25]), "+r"(v[26]), "+r"(v[27]), "+r"(v[28]), "+r"(v[29]), "+r"(v[30]),
                 "+r"(v[31])::"memory");
}
M3_INLINE void tensorStore(u32 address, const u32 (&v)[32]) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%0], "
               "{%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%"
               "23,%24,%25,%26,%27,%28,%29,%30,%31,%32};" ::"r"(address),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]),
               "r"(v[7]), "r"(v[8]), "r"(v[9]), "r"(v[10]), "r"(v[11]), "r"(v[12]), "r"(v[13]),
               "r"(v[14]), "r"(v[15]), "r"(v[16]), "r"(v[17]), "r"(v[18]), "r"(v[19]), "r"(v[20]),
               "r"(v[21]), "r"(v[22]), "r"(v[23]), "r"(v[24]), "r"(v[25]), "r"(v[26]), "r"(v[27]),
               "r"(v[28]), "r"(v[29]), "r"(v[30]), "r"(v[31])
               : "memory");
}
M3_INLINE void waitTensorStores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

/// PTX ISA, "tcgen05.mma": D (tensor memory) = A · B (+ D), 32 bytes along k, started by one
/// thread. A is in tensor memory or, as B, in shared memory under a descriptor.
M3_INLINE void tensorMmaE4m3(u32 d, u32 a, u64 b, u32 instruction, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], [%1], %2, %3, p; }" ::"r"(d),
               "r"(a), "l"(b), "r"(instruction), "r"((u32)accumulate)
               : "memory");
}
M3_INLINE void tensorMmaE4m3(u32 d, u64 a, u64 b, u32 instruction, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p; }" ::"r"(d),
               "l"(a), "l"(b), "r"(instruction), "r"((u32)accumulate)
               : "memory");
}
M3_INLINE void tensorMmaF16(u32 d, u32 a, u64 b, u32 instruction, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }" ::"r"(d),
               "r"(a), "l"(b), "r"(instruction), "r"((u32)accumulate)
               : "memory");
}
M3_INLINE void tensorMmaF16(u32 d, u64 a, u64 b, u32 instruction, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(d),
               "l"(a), "l"(b), "r"(instruction), "r"((u32)accumulate)
               : "memory");
}
/// PTX ISA, "tcgen05.commit": arrives at the barrier when the products that this thread started
/// before have ended.
M3_INLINE void tensorCommit(u64 *barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   sharedAddress(barrier))
               : "memory");
}

//===- Two work items of a cluster ------------------------------------------------------------===//

/// PTX ISA, "tcgen05.alloc", "tcgen05.dealloc", ".cta_group::2": one warp of each asks for the same
/// columns, and they wait for each other.
M3_INLINE void pairAllocate(u32 *address, u32 columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;\n"
      "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::"r"(sharedAddress(address)),
      "r"(columns)
      : "memory");
}
M3_INLINE void pairFree(u32 address, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns)
               : "memory");
}
/// PTX ISA, "tcgen05.mma", ".cta_group::2": a product of 256 rows, the first 128 of A and of D in
/// the tensor memory of the work item that starts it, the even one of the two; of the columns of B
/// each has half in its shared memory, at the same place.
M3_INLINE void pairMmaE4m3(u32 d, u32 a, u64 b, u32 instruction, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], [%1], %2, %3, p; }" ::"r"(d),
               "r"(a), "l"(b), "r"(instruction), "r"((u32)accumulate)
               : "memory");
}
/// PTX ISA, "tcgen05.commit", ".multicast::cluster": at the barrier in that place of each work item
/// of the cluster that has a bit in `ranks`.
M3_INLINE void pairCommit(u64 *barrier, u32 ranks) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster."
               "multicast::cluster.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
               "h"((u16)ranks)
               : "memory");
}
/// PTX ISA, "mapa", "mbarrier.arrive": at the barrier in that place of another work item.
M3_INLINE void arriveAtRank(u64 *barrier, u32 rank) {
  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(
                   sharedAddress(barrier)),
               "r"(rank)
               : "memory");
}
/// PTX ISA, "mbarrier.try_wait": of a barrier at which threads of the cluster arrive.
M3_INLINE bool phaseEndedInCluster(u64 *barrier, u32 parity) {
  u32 ended;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], "
               "%2; selp.u32 %0, 1, 0, p; }"
               : "=r"(ended)
               : "r"(sharedAddress(barrier)), "r"(parity)
               : "memory");
  return ended;
}
