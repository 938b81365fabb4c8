// Scalars, barriers and rings. Memory is reached through these functions and boxes.h alone.
#pragma once

#include "boxes.h"
#include "ring.h"

/// Addresses of scalars are equal in all lanes.
template <class T> M3_INLINE T loadScalar(const T *p) { return uniform(loadAt(p)); }
template <class T, class V> M3_INLINE void storeScalar(T *p, V value) {
  warpBarrier();
  if (laneId() == 0)
    storeAt(p, value);
  warpBarrier();
}

/// The chip has no instruction that brings memory into a cache and nowhere else.
template <int Bytes, class T> M3_INLINE void copyAhead(const T *) {}

M3_INLINE i64 warpId() { return uniform(threadNumber() / warpLanes); }

/// All waves of the work item; shared and global stores before it are seen after it.
M3_INLINE void barrier() { itemBarrier(); }

/// Counts the work item in; true in the last of `expected`, which leaves the counter at zero.
/// Stores of the others before they arrived are seen by the last.
M3_INLINE bool arriveLast(i32 *counter, i64 expected) {
  bool last = false;
  barrier();
  if (threadNumber() == 0) {
    last = addToCounter(counter, 1) == (i32)expected - 1;
    if (last)
      storeAt(counter, 0);
  }
  return anyOfItem(last);
}

/// Conditions that hold, of rows of 32: the lower half of the wave has each once.
template <int R> M3_INLINE i64 countOf(const Tile<bool, R, 32> &takes) {
  i64 count = 0;
  M3_UNROLL for (int r = 0; r < R; ++r) count += countLanes((u32)lanesWhere(takes.v[r][0]));
  return count;
}
/// Elements for which they hold, one behind the other, at most `limit`.
template <class T, int R>
M3_INLINE void compact(const Tile<T, R, 32> &values, T *p, const Tile<bool, R, 32> &takes,
                       i64 limit) {
  warpBarrier();
  i32 before = 0;
  M3_UNROLL for (int r = 0; r < R; ++r) {
    const u32 lanes = (u32)lanesWhere(takes.v[r][0]);
    const i32 place = before + countLanes(lanes & (u32)((1ul << laneId()) - 1));
    if (laneId() < 32 && takes.v[r][0] && place < limit)
      storeAt(p + place, values.v[r][0]);
    before += countLanes(lanes);
  }
  warpBarrier();
}

/// Stages that copies fill past the registers. The i-th use of the ring is in stage i % Stages. Two
/// counters of each stage only grow: how often it was filled, and how many waves have released it.
template <class T, int Stages, int Elements, int Consumers> struct AsyncRing {
  static constexpr int bytes = Elements * (int)sizeof(T), copyBytes = 16 * warpLanes;
  static_assert(bytes % copyBytes == 0);
  T *base;
  u32 *filled, *released;
  M3_INLINE explicit AsyncRing(T *base) : base(base) {
    filled = (u32 *)(base + Stages * Elements);
    released = filled + Stages;
    if (threadNumber() < 2 * Stages)
      startCounter(filled + threadNumber());
  }
  static M3_INLINE i32 stage(i64 i) { return (u32)i % Stages; }
  static M3_INLINE u32 round(i64 i) { return (u32)i / Stages; }
  M3_INLINE T *acquire(i64 i) {
    awaitCounter(released + stage(i), round(i) * Consumers);
    return base + stage(i) * Elements;
  }
  /// All lanes of one wave bring a whole stage.
  M3_INLINE void fill(i64 i, const u8 *from) {
    u8 *const to = (u8 *)(base + stage(i) * Elements);
    M3_UNROLL for (int at = 0; at < bytes; at += copyBytes)
        copyToShared(to + at, from + at + 16 * laneId());
  }
  M3_INLINE void commit(i64 i) {
    waitForCopies();
    warpBarrier();
    if (laneId() == 0)
      raise(filled + stage(i), 1);
  }
  M3_INLINE T *wait(i64 i) {
    awaitCounter(filled + stage(i), round(i) + 1);
    return base + stage(i) * Elements;
  }
  M3_INLINE void release(i64 i) {
    warpBarrier();
    if (laneId() == 0)
      raise(released + stage(i), 1);
  }
};

/// Counters of stages that only grow, where nobody copies: use i is in stage i % Stages. A stage is
/// full after `fills` signals of waves, empty again after `drains`.
template <int Stages> struct Gates {
  u32 *full, *empty;
  u32 fills, drains;
  M3_INLINE Gates(u64 *words, u32 fills, u32 drains)
      : full((u32 *)words), empty((u32 *)words + Stages), fills(fills), drains(drains) {
    if (threadNumber() < 2 * Stages)
      startCounter(full + threadNumber());
  }
  static M3_INLINE i32 stage(i64 i) { return (u32)i % Stages; }
  static M3_INLINE u32 round(i64 i) { return (u32)i / Stages; }
  M3_INLINE void waitFull(i64 i) { awaitCounter(full + stage(i), (round(i) + 1) * fills); }
  M3_INLINE void waitEmpty(i64 i) { awaitCounter(empty + stage(i), round(i) * drains); }
  static M3_INLINE void signal(u32 *counter) {
    warpBarrier();
    if (laneId() == 0)
      raise(counter, 1);
  }
  M3_INLINE void signalFull(i64 i) { signal(full + stage(i)); }
  M3_INLINE void signalEmpty(i64 i) { signal(empty + stage(i)); }
};
