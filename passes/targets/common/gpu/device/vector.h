// Register tiles spread over one warp: element (r, c) of a tile lives in every lane that is c
// modulo W, in slot c / W, where W is the largest power of two that divides the columns, at most
// the lanes of a warp. A tile of one column is in every lane. Scalars are equal in all lanes, so
// control flow never diverges.
#pragma once

#include "lanes.h"

inline constexpr f32 infinity = __builtin_bit_cast(f32, 0x7f800000u);
inline constexpr f32 notANumber = __builtin_bit_cast(f32, 0x7fc00000u);

/// What one lane holds of a value: the headers shared between targets are written for any number.
template <class T, int N> struct VecOf {
  static_assert(N == 1);
  using type = T;
};
template <class T, int N> using Vec = typename VecOf<T, N>::type;
template <class V> struct LaneCount {
  static constexpr int value = 1;
};

template <class T, int R, int C> struct Tile {
  using Element = T;
  M3_INLINE static constexpr int lanesOf() {
    int lanes = warpLanes;
    while (C % lanes)
      lanes /= 2;
    return lanes;
  }
  static constexpr int rows = R, columns = C, W = lanesOf(), vectors = C / W;
  T v[R][vectors];
};

/// Bits of `value` as another type of the same size.
template <class To, class From> M3_INLINE To bitsAs(From value) {
  return __builtin_bit_cast(To, value);
}

/// Element `i` of a tile, row-major, in every lane.
template <class T, int R, int C> M3_INLINE T element(const Tile<T, R, C> &tile, int i) {
  using TileT = Tile<T, R, C>;
  T value = tile.v[i / C][i % C / TileT::W];
  if constexpr (TileT::W == 1)
    return value;
  else
    return fromLane(value, i % TileT::W);
}

/// A tile whose element i, row-major, is element `source(i)` of `in`. A slot of the result may draw
/// on several slots, so each of them is offered to all lanes.
template <class Out, class T, int R, int C, class F>
M3_INLINE Out gather(const Tile<T, R, C> &in, F source) {
  using In = Tile<T, R, C>;
  Out out;
  M3_UNROLL for (int r = 0; r < Out::rows; ++r) M3_UNROLL for (int c = 0; c < Out::vectors; ++c) {
    const int from = source(r * Out::columns + c * Out::W + laneId() % Out::W);
    T value{};
    M3_UNROLL for (int s = 0; s < R * In::vectors; ++s) {
      T offered = fromLane(in.v[s / In::vectors][s % In::vectors], from % C % In::W);
      if (from / C * In::vectors + from % C / In::W == s)
        value = offered;
    }
    out.v[r][c] = value;
  }
  return out;
}
