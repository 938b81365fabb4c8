// What scalar regions call: primitives here, the functions built from them in functions.h.
#pragma once

#include "vector.h"

template <class A, class B> M3_INLINE auto select(bool condition, A a, B b) {
  return condition ? a : (A)b;
}
template <class A, class B> M3_INLINE A maximum(A a, B b) { return a > (A)b ? a : (A)b; }
template <class A, class B> M3_INLINE A minimum(A a, B b) { return a < (A)b ? a : (A)b; }
template <class T, class V> M3_INLINE T convert(V value) { return (T)value; }

M3_INLINE f32 magnitude(f32 x) { return __builtin_fabsf(x); }
M3_INLINE f32 squareRoot(f32 x) { return __builtin_sqrtf(x); }
M3_INLINE f32 fusedMultiplyAdd(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
M3_INLINE f64 fusedMultiplyAdd(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
M3_INLINE f32 roundEven(f32 x) { return __builtin_rintf(x); }
M3_INLINE f64 roundEven(f64 x) { return __builtin_rint(x); }
M3_INLINE bool isNan(f32 x) { return x != x; }
M3_INLINE i32 bitsOfFloat(f32 x) { return bitsAs<i32>(x); }
M3_INLINE f32 floatOfBits(i32 x) { return bitsAs<f32>(x); }

#include "functions.h"
