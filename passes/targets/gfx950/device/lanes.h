// A wave of 64 lanes.
#pragma once

#include "atoms.h"

#define M3_INLINE __device__ __forceinline__
#define M3_UNROLL _Pragma("unroll")
#define M3_ROLLED _Pragma("unroll 1")

inline constexpr int warpLanes = 64;

M3_INLINE int laneId() { return threadNumber() % warpLanes; }
M3_INLINE void warpBarrier() { waveBarrier(); }

/// The value that `lane` holds, of up to 32 bits.
template <class T> M3_INLINE T fromLane(T value, int lane) {
  static_assert(sizeof(T) == 4);
  return __builtin_bit_cast(T, valueOfLane(__builtin_bit_cast(u32, value), lane));
}
M3_INLINE u8 fromLane(u8 value, int lane) { return (u8)fromLane((u32)value, lane); }
M3_INLINE u16 fromLane(u16 value, int lane) { return (u16)fromLane((u32)value, lane); }
M3_INLINE bool fromLane(bool value, int lane) { return fromLane((u32)value, lane); }

/// A value that is equal in all lanes, as a scalar.
template <class T> M3_INLINE T uniform(T value) {
  if constexpr (sizeof(T) == 8) {
    const u64 bits = __builtin_bit_cast(u64, value);
    return __builtin_bit_cast(T, (u64)valueOfFirst((u32)bits) | (u64)valueOfFirst((u32)(bits >> 32))
                                                                    << 32);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, valueOfFirst(__builtin_bit_cast(u32, value)));
  } else {
    return (T)valueOfFirst((u32)value);
  }
}

/// `combine` over the 16 lanes of a row, and over the lanes of the same place in all four rows.
template <class T, class F> M3_INLINE T acrossRow(T value, F combine) {
  const auto with = [&](u32 other) { value = combine(value, __builtin_bit_cast(T, other)); };
  with(rotatedRow<8>(__builtin_bit_cast(u32, value)));
  with(rotatedRow<4>(__builtin_bit_cast(u32, value)));
  with(rotatedRow<2>(__builtin_bit_cast(u32, value)));
  with(rotatedRow<1>(__builtin_bit_cast(u32, value)));
  return value;
}
template <class T, class F> M3_INLINE T acrossRows(T value, F combine) {
  u32 a = __builtin_bit_cast(u32, value), b = a;
  swapRows(a, b);
  a = b = __builtin_bit_cast(u32, combine(__builtin_bit_cast(T, a), __builtin_bit_cast(T, b)));
  swapHalves(a, b);
  return combine(__builtin_bit_cast(T, a), __builtin_bit_cast(T, b));
}

/// The largest value of all lanes.
M3_INLINE i32 largestOfLanes(i32 value) {
  const auto larger = [](i32 a, i32 b) { return a > b ? a : b; };
  return uniform(acrossRows(acrossRow(value, larger), larger));
}
/// A bit for each lane where a condition holds.
M3_INLINE u64 lanesWhere(bool condition) { return lanesThat(condition); }
M3_INLINE i32 countLanes(u32 lanes) { return __builtin_popcount(lanes); }
M3_INLINE bool anyLane(bool condition) { return lanesThat(condition) != 0; }
