// What CUDA C++ has by itself, for texts that are compiled for the emulator. Only what device
// headers use; a name that is missing here does not compile.
#pragma once

#define M3_EMULATED_TEXT
#include "emulator.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)

#define threadIdx (m3emu::self()->index)
#define blockIdx (m3emu::self()->block)
#define blockDim (m3emu::self()->blockSize)
#define gridDim (m3emu::self()->gridSize)

struct alignas(8) int2 {
  int x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

//===- Warps ----------------------------------------------------------------------------------===//

M3EMU_INLINE void __syncwarp(unsigned mask = ~0u) {
  m3emu::Thread *t = m3emu::self();
  t->calls->meet(t, "bar.warp.sync", mask, nullptr, true);
}

/// Masks of shuffles and votes are whole warps.
M3EMU_INLINE void needWholeWarp(unsigned mask) {
  if (mask != ~0u)
    m3emu::self()->calls->fail(m3emu::self(),
                               "a shuffle or a vote of a part of a warp is not emulated");
}

template <class T> M3EMU_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  needWholeWarp(mask);
  const int own = (int)m3emu::self()->lane;
  return m3emu::fromLane("shfl.sync.idx", value, (own & -width) | (lane & (width - 1)));
}
template <class T>
M3EMU_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  needWholeWarp(mask);
  const int own = (int)m3emu::self()->lane, from = own ^ bits;
  return m3emu::fromLane("shfl.sync.bfly", value, (from & -width) <= (own & -width) ? from : own);
}
template <class T>
M3EMU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned n, int width = 32) {
  needWholeWarp(mask);
  const int own = (int)m3emu::self()->lane, from = own - (int)n;
  return m3emu::fromLane("shfl.sync.up", value, from >= (own & -width) ? from : own);
}
template <class T>
M3EMU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned n, int width = 32) {
  needWholeWarp(mask);
  const int own = (int)m3emu::self()->lane, from = own + (int)n;
  return m3emu::fromLane("shfl.sync.down", value, from < (own & -width) + width ? from : own);
}

M3EMU_INLINE unsigned __ballot_sync(unsigned mask, int holds) {
  needWholeWarp(mask);
  unsigned lanes = 0;
  m3emu::fromLanes("vote.sync", holds != 0,
                   [&](unsigned lane, unsigned long value) { lanes |= (unsigned)value << lane; });
  return lanes;
}
M3EMU_INLINE int __any_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) != 0; }
M3EMU_INLINE int __all_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) == ~0u; }
M3EMU_INLINE unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  needWholeWarp(mask);
  unsigned most = 0;
  m3emu::fromLanes("redux.sync.max", value, [&](unsigned, unsigned long other) {
    most = most > other ? most : (unsigned)other;
  });
  return most;
}

//===- Work items -----------------------------------------------------------------------------===//

M3EMU_INLINE void __syncthreads() {
  m3emu::Thread *t = m3emu::self();
  t->calls->barrier(t, 0, 0, true);
}
M3EMU_INLINE int __syncthreads_or(int holds) {
  m3emu::Thread *t = m3emu::self();
  return (int)t->calls->barrierOr(t, holds != 0);
}
M3EMU_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

//===- Arithmetic -----------------------------------------------------------------------------===//

M3EMU_INLINE float fabsf(float x) { return __builtin_fabsf(x); }
M3EMU_INLINE float rintf(float x) { return __builtin_rintf(x); }
M3EMU_INLINE double rint(double x) { return __builtin_rint(x); }
M3EMU_INLINE float fmaxf(float a, float b) { return a != a ? b : b != b ? a : a > b ? a : b; }
M3EMU_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
M3EMU_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
M3EMU_INLINE float __fdiv_rn(float a, float b) { return a / b; }
M3EMU_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
M3EMU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
M3EMU_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long both = (unsigned long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = (unsigned)(both >> (selector >> 4 * i & 7) * 8) & 0xff;
    out |= (selector >> 4 * i & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
  }
  return out;
}

//===- Atomic operations ----------------------------------------------------------------------===//
// Of memory that no other access races with; in order, as the GPU's with fences around them.

M3EMU_INLINE int atomicAdd(int *p, int value) {
  m3emu::updating(p, sizeof *p);
  return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}
M3EMU_INLINE unsigned atomicAdd(unsigned *p, unsigned value) {
  m3emu::updating(p, sizeof *p);
  return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}
