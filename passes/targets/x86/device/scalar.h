// What scalar regions call: each function serves one value or a vector of values. The rest of them
// is built from these, for every target alike (functions.h).
#pragma once

#include "vector.h"

/// Comparison results: bool for scalars, an integer vector for vectors. One branch may be a scalar.
template <class A, class B> struct CommonOf {
  using type = A;
};
template <class A, class B, int N> struct CommonOf<A, B __attribute__((ext_vector_type(N)))> {
  using type = Vec<B, N>;
};
template <class A, class B> using Common = typename CommonOf<A, B>::type;

template <class A, class B> M3_INLINE auto select(bool condition, A a, B b) {
  using T = Common<A, B>;
  return condition ? (T)a : (T)b;
}
template <class V> struct ElementOf {
  using type = V;
};
template <class T, int N> struct ElementOf<T __attribute__((ext_vector_type(N)))> {
  using type = T;
};
template <class A, class B, int N>
M3_INLINE auto select(i32 __attribute__((ext_vector_type(N))) condition, A a, B b) {
  using T = Vec<typename ElementOf<A>::type, N>;
  return condition ? (T)a : (T)b;
}

template <class A, class B> M3_INLINE auto maximum(A a, B b) {
  using T = Common<A, B>;
  return (T)a > (T)b ? (T)a : (T)b;
}
template <class A, class B> M3_INLINE auto minimum(A a, B b) {
  using T = Common<A, B>;
  return (T)a < (T)b ? (T)a : (T)b;
}

template <class T, class V> M3_INLINE auto convert(V value) {
  constexpr int n = LaneCount<V>::value;
  if constexpr (n == 1)
    return (T)value;
  else
    return __builtin_convertvector(value, Vec<T, n>);
}

template <class V> M3_INLINE V magnitude(V x) { return __builtin_elementwise_abs(x); }
template <class V> M3_INLINE V squareRoot(V x) { return __builtin_elementwise_sqrt(x); }
template <class V> M3_INLINE V fusedMultiplyAdd(V a, V b, V c) {
  return __builtin_elementwise_fma(a, b, c);
}
template <class V> M3_INLINE auto isNan(V x) { return x != x; }
template <class V> M3_INLINE auto bitsOfFloat(V x) {
  return bitsAs<Vec<i32, LaneCount<V>::value>>(x);
}
template <class V> M3_INLINE auto floatOfBits(V x) {
  return bitsAs<Vec<f32, LaneCount<V>::value>>(x);
}
template <class V> M3_INLINE V roundEven(V x) { return __builtin_elementwise_rint(x); }

#include "functions.h"
