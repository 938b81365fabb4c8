// Boxes of memory to register tiles and back, by all lanes of a warp. Alike on every GPU.
#pragma once

#include "access.h"
#include "atoms.h"

/// Element i of the tile (row-major) is p[i / Chunk * stride + i % Chunk].
template <class T, int R, int C, int Chunk> M3_INLINE Tile<T, R, C> load(const T *p, i64 stride) {
  Tile<T, R, C> t;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < t.vectors; ++c) {
    const int i = r * C + c * t.W + laneId() % t.W;
    t.v[r][c] = loadAt(p + i / Chunk * stride + i % Chunk);
  }
  return t;
}

/// The inverse of load; only chunks below `chunks` are written. All lanes have read what they need
/// before, and see the new contents after.
template <int Chunk, class T, int R, int C>
M3_INLINE void store(const Tile<T, R, C> &t, T *p, i64 stride, i64 chunks = R * C) {
  warpBarrier();
  if (laneId() < t.W)
    M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < t.vectors; ++c) {
      const int i = r * C + c * t.W + laneId();
      if (i / Chunk < chunks)
        storeAt(p + i / Chunk * stride + i % Chunk, t.v[r][c]);
    }
  warpBarrier();
}

/// One access of a lane to memory that is aligned to its size.
template <class V> M3_INLINE V loadWide(const void *p) { return loadAt((const V *)p); }
template <class T, class V> M3_INLINE void storeWide(T *p, V value) { storeAt((V *)p, value); }
/// Two neighbours, to BF16 or FP32.
M3_INLINE void storePair(u16 *p, f32 first, f32 second) {
  storeWide((u32 *)p, packBf16(first, second));
}
M3_INLINE void storePair(f32 *p, f32 first, f32 second) { storeWide(p, float2{first, second}); }

/// p[places[i]] = value[i] where the place is not negative.
template <int C>
M3_INLINE void scatter(const Tile<i32, 1, C> &value, const Tile<i32, 1, C> &places, i32 *p) {
  warpBarrier();
  if (laneId() < value.W)
    M3_UNROLL for (int c = 0; c < value.vectors; ++c) if (places.v[0][c] >= 0)
        storeAt(p + places.v[0][c], value.v[0][c]);
  warpBarrier();
}

/// Elements of `p` at the numbers in a tile.
template <class T, int R, int C>
M3_INLINE Tile<T, R, C> gatherAt(const T *p, const Tile<i32, R, C> &numbers) {
  Tile<T, R, C> t;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[r][c] =
      loadAt(p + numbers.v[r][c]);
  return t;
}
