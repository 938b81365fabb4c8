// What HIP C++ has from its runtime's headers, as far as kernels use it: none of ROCm is needed.
#pragma once

#include "types.h"

#ifndef __HIPCC_RTC__ // it brings these itself
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))

struct alignas(8) uint2 {
  u32 x, y;
};
struct alignas(16) uint4 {
  u32 x, y, z, w;
};
struct alignas(8) float2 {
  f32 x, y;
};
struct alignas(16) float4 {
  f32 x, y, z, w;
};
#endif

/// All work items have exactly so many threads.
#define M3_THREADS(n) __attribute__((amdgpu_flat_work_group_size(n, n)))
