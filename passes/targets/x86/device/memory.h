// Tiles to and from memory, rings, prefetch.
#pragma once

#include "atoms.h"
#include "vector.h"

/// Element i of the tile (row-major) is p[i / Chunk * stride + i % Chunk].
template <class T, int R, int C, int Chunk> M3_INLINE Tile<T, R, C> load(const T *p, i64 stride) {
  using TileT = Tile<T, R, C>;
  TileT t;
  if constexpr (Chunk % TileT::W == 0) {
    M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < TileT::vectors; ++c) {
      const int i = r * C + c * TileT::W;
      __builtin_memcpy(&t.v[r][c], p + i / Chunk * stride + i % Chunk, sizeof(t.v[r][c]));
    }
  } else {
    M3_UNROLL for (int i = 0; i < R * C; ++i) setElement(t, i, p[i / Chunk * stride + i % Chunk]);
  }
  return t;
}

/// The inverse of load; only chunks below `chunks` are written.
template <int Chunk, class T, int R, int C>
M3_INLINE void store(const Tile<T, R, C> &t, T *p, i64 stride, i64 chunks = R * C) {
  using TileT = Tile<T, R, C>;
  if constexpr (Chunk % TileT::W == 0) {
    M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < TileT::vectors; ++c) {
      const int i = r * C + c * TileT::W;
      if (i / Chunk < chunks)
        __builtin_memcpy(p + i / Chunk * stride + i % Chunk, &t.v[r][c], sizeof(t.v[r][c]));
    }
  } else {
    M3_UNROLL for (int i = 0; i < R * C; ++i) if (i / Chunk < chunks)
        p[i / Chunk * stride + i % Chunk] = element(t, i);
  }
}

/// p[places[i]] = value[i] where the place is not negative.
template <int C>
M3_INLINE void scatter(const Tile<i32, 1, C> &value, const Tile<i32, 1, C> &places, i32 *p) {
  i32 values[C], to[C];
  store<C>(value, values, 0);
  store<C>(places, to, 0);
  for (int i = 0; i < C; ++i)
    if (to[i] >= 0)
      p[to[i]] = values[i];
}

template <class T> M3_INLINE T loadScalar(const T *p) { return *p; }
template <class T, class V> M3_INLINE void storeScalar(T *p, V value) { *p = (T)value; }

/// Starts to bring `Bytes` bytes from p, which are read once, into the first-level cache: past the
/// others, where code, tables and activations then stay, unless the processor is slow at that.
template <int Bytes, class T> M3_INLINE void copyAhead(const T *p) {
  M3_UNROLL for (int line = 0; line < Bytes; line += 64) streamLine((const u8 *)p + line);
}

/// One thread runs a work item: there is nobody to wait for.
M3_INLINE void barrier() {}

/// Counts the work item in; true in the last of `expected`, which leaves the counter at zero.
M3_INLINE bool arriveLast(i32 *counter, i64 expected) {
  const bool last = __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL) == (i32)expected;
  if (last)
    __atomic_store_n(counter, 0, __ATOMIC_RELAXED);
  return last;
}

/// Stages of equal buffers. Producer and consumer are stages of one thread, so a position is
/// enough.
template <class T, int Stages, int Elements> struct Ring {
  T *base;
  int head = 0, tail = 0;
  explicit Ring(T *base) : base(base) {}
  T *acquire() { return base + i64(head) * Elements; }
  void commit() { head = head + 1 == Stages ? 0 : head + 1; }
  T *wait() { return base + i64(tail) * Elements; }
  void release() { tail = tail + 1 == Stages ? 0 : tail + 1; }
};
