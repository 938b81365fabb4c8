// What scalar regions call, as far as it is the language's own on every GPU; the rest is in
// scalar.h.
#pragma once

#include "vector.h"

template <class A, class B> M3_INLINE auto select(bool condition, A a, B b) {
  return condition ? a : (A)b;
}
template <class A, class B> M3_INLINE A maximum(A a, B b) { return a > (A)b ? a : (A)b; }
template <class A, class B> M3_INLINE A minimum(A a, B b) { return a < (A)b ? a : (A)b; }
template <class T, class V> M3_INLINE T convert(V value) { return (T)value; }

M3_INLINE bool isNan(f32 x) { return x != x; }
M3_INLINE i32 bitsOfFloat(f32 x) { return bitsAs<i32>(x); }
M3_INLINE f32 floatOfBits(i32 x) { return bitsAs<f32>(x); }
