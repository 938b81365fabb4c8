// The emulator's form of device/hip.h, which texts see before their first line.
#pragma once

#define M3_EMULATED_TEXT
#include "emulator.h"
#include "types.h"

#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define M3_THREADS(n)

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
