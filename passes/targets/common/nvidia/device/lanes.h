// A warp of 32 lanes, in CUDA C++.
#pragma once

#include "types.h"

#define M3_INLINE __device__ __forceinline__
#define M3_UNROLL _Pragma("unroll")
#define M3_ROLLED _Pragma("unroll 1")

inline constexpr int warpLanes = 32;

M3_INLINE int laneId() { return threadIdx.x % warpLanes; }
M3_INLINE void warpBarrier() { __syncwarp(); }

/// The value that `lane` holds.
template <class T> M3_INLINE T fromLane(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
M3_INLINE u8 fromLane(u8 value, int lane) { return (u8)fromLane((u32)value, lane); }
M3_INLINE u16 fromLane(u16 value, int lane) { return (u16)fromLane((u32)value, lane); }
/// The largest value of all lanes.
M3_INLINE i32 largestOfLanes(i32 value) {
  return (i32)(__reduce_max_sync(0xffffffffu, (u32)value ^ 0x80000000u) ^ 0x80000000u);
}
/// A bit for each lane where a condition holds.
M3_INLINE u32 lanesWhere(bool condition) { return __ballot_sync(0xffffffffu, condition); }
M3_INLINE i32 countLanes(u32 lanes) { return __popc(lanes); }
M3_INLINE bool anyLane(bool condition) { return __any_sync(0xffffffffu, condition); }
