// Vectors and register tiles. A tile keeps its columns in vectors of W lanes, W the largest power
// of two that divides the columns and fits the machine; a tile of one column keeps scalars.
#pragma once

#include "types.h"

#define M3_INLINE __attribute__((always_inline)) static inline
#define M3_UNROLL _Pragma("clang loop unroll(full)")
#define M3_ROLLED _Pragma("clang loop unroll(disable)")

#ifdef __AVX512F__
inline constexpr int vectorBytes = 64;
#else
inline constexpr int vectorBytes = 32;
#endif

inline constexpr f32 infinity = __builtin_inff();
inline constexpr f32 notANumber = __builtin_nanf("");

template <class T, int N> struct VecOf {
  typedef T type __attribute__((ext_vector_type(N)));
};
template <class T> struct VecOf<T, 1> {
  using type = T;
};
template <class T, int N> using Vec = typename VecOf<T, N>::type;

template <class T> constexpr int lanesOf(int columns) {
  int lanes = vectorBytes / int(sizeof(T));
  while (columns % lanes)
    lanes /= 2;
  return lanes;
}

template <class T, int R, int C> struct Tile {
  using Element = T;
  static constexpr int rows = R, columns = C, W = lanesOf<T>(C), vectors = C / W;
  Vec<T, W> v[R][vectors];
};

template <class V> struct LaneCount {
  static constexpr int value = 1;
};
template <class T, int N> struct LaneCount<T __attribute__((ext_vector_type(N)))> {
  static constexpr int value = N;
};

/// Bits of `value` as another type of the same size.
template <class To, class From> M3_INLINE To bitsAs(From value) {
  return __builtin_bit_cast(To, value);
}

/// The same value in every lane (the identity for one lane).
template <class T, int N> M3_INLINE Vec<T, N> splat(T value) { return (Vec<T, N>)(value); }

/// Lane `i` of a tile, row-major, as an element number.
template <class T, int R, int C> M3_INLINE T element(const Tile<T, R, C> &tile, int i) {
  using TileT = Tile<T, R, C>;
  if constexpr (TileT::W == 1)
    return tile.v[i / C][i % C];
  else
    return tile.v[i / C][i % C / TileT::W][i % TileT::W];
}

template <class T, int R, int C> M3_INLINE void setElement(Tile<T, R, C> &tile, int i, T value) {
  using TileT = Tile<T, R, C>;
  if constexpr (TileT::W == 1)
    tile.v[i / C][i % C] = value;
  else
    tile.v[i / C][i % C / TileT::W][i % TileT::W] = value;
}
