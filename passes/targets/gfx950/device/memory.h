// Scalars, barriers and rings. Memory is reached through these functions and boxes.h alone.
#pragma once

#include "boxes.h"

/// Addresses of scalars are equal in all lanes.
template <class T> M3_INLINE T loadScalar(const T *p) { return uniform(loadAt(p)); }
template <class T, class V> M3_INLINE void storeScalar(T *p, V value) {
  warpBarrier();
  if (laneId() == 0)
    storeAt(p, value);
  warpBarrier();
}

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
