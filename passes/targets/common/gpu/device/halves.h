// FP32 rows as two operands of FP16 each, which together hold 22 bits of an element.
#pragma once

#include "types.h"

/// Part 0: the first eleven bits of a number. Part 1: what they leave of it.
template <int Part> M3_INLINE f32 halfOf(f32 x) {
  const f32 first = bitsAs<f32>(bitsAs<u32>(x) & 0xffffe000u);
  return Part == 0 ? first : x - first;
}

/// Rows whose elements are read so.
template <int Part> struct HalfRows {
  const f32 *p;
  M3_INLINE HalfRows operator+(i64 n) const { return {p + n}; }
};

/// Rows of the view as an operand, `stride` elements apart; rows from `rows` on repeat the last.
template <class T> struct LoadFragment;
template <int Part, class T> M3_INLINE T loadHalf(const f32 *p, i64 stride, i64 rows = 1 << 30) {
  return LoadFragment<T>::from(HalfRows<Part>{p}, stride, rows);
}
