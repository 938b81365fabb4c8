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

/// PTX ISA, "mul": two BF16 products, nearest even, subnormals kept.
M3_INLINE u32 multiplyBf16(u32 a, u32 b) {
  u32 product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

/// PTX ISA, "ld.global.nc": read-only memory that is used once, past the first-level cache.
M3_INLINE int4 loadOnce(const int4 *p) {
  int4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.s32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
M3_INLINE u16 loadOnce(const u16 *p) {
  u16 v;
  asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}

/// PTX ISA, "prefetch": one line of global memory into the second-level cache.
M3_INLINE void prefetchLine(const u8 *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

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

/// PTX ISA, "mapa": the generic address of the same shared byte in another block of the cluster.
M3_INLINE u64 sharedOfRank(u64 address, u32 rank) {
  u64 mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(address), "r"(rank));
  return mapped;
}
