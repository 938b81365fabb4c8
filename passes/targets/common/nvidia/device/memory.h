// Tiles to and from memory, rings, prefetch. Memory is reached through these functions alone.
#pragma once

#include "atoms.h"
#include "boxes.h"
#include "ring.h"

template <class T> M3_INLINE T loadScalar(const T *p) { return loadAt(p); }
template <class T, class V> M3_INLINE void storeScalar(T *p, V value) {
  warpBarrier();
  if (laneId() == 0)
    storeAt(p, value);
  warpBarrier();
}

/// Starts to bring `Bytes` bytes from p into the second-level cache, 128-byte lines.
template <int Bytes, class T> M3_INLINE void copyAhead(const T *p) {
  if (laneId() * 128 < Bytes)
    prefetchLine((const u8 *)p + laneId() * 128);
}

/// All warps of the work item; shared and global stores before it are seen after it.
M3_INLINE void barrier() { __syncthreads(); }

/// Counts the work item in; true in the last of `expected`, which leaves the counter at zero.
/// Stores of the others before they arrived are seen by the last.
M3_INLINE bool arriveLast(i32 *counter, i64 expected) {
  bool last = false;
  barrier();
  if (threadIdx.x == 0) {
    last = countIn(counter) == (i32)expected - 1;
    if (last)
      storeAt(counter, 0);
  }
  return __syncthreads_or(last);
}

M3_INLINE i64 clusterRank() { return rankInCluster(); }
M3_INLINE void clusterArrive() { arriveAtCluster(); }
M3_INLINE void clusterWait() { awaitCluster(); }
M3_INLINE void clusterBarrier() { clusterArriveAndWait(); }
template <class T> M3_INLINE T *peer(T *p, i64 rank) {
  return (T *)sharedOfRank((u64)p, (u32)rank);
}

/// Conditions that hold, of rows of 32.
template <int R> M3_INLINE i64 countOf(const Tile<bool, R, 32> &takes) {
  i32 count = 0;
  M3_UNROLL for (int r = 0; r < R; ++r) count += countLanes(lanesWhere(takes.v[r][0]));
  return count;
}
/// Elements for which they hold, one behind the other, at most `limit`.
template <class T, int R>
M3_INLINE void compact(const Tile<T, R, 32> &values, T *p, const Tile<bool, R, 32> &takes,
                       i64 limit) {
  warpBarrier();
  i32 before = 0;
  M3_UNROLL for (int r = 0; r < R; ++r) {
    const u32 lanes = lanesWhere(takes.v[r][0]);
    const i32 place = before + countLanes(lanes & ((1u << laneId()) - 1));
    if (takes.v[r][0] && place < limit)
      storeAt(p + place, values.v[r][0]);
    before += countLanes(lanes);
  }
  warpBarrier();
}

/// Stages that copies fill by themselves. The i-th use of the ring is in stage i % Stages. A stage
/// is filled when its bytes have come, free when `Consumers` warps have released it. `Turns` groups
/// of warps wait for the uses in turn.
template <class T, int Stages, int Elements, int Consumers, int Turns = 1> struct AsyncRing {
  T *base;
  u64 *full, *empty;
  M3_INLINE explicit AsyncRing(T *base) : base(base) {
    full = (u64 *)(base + Stages * Elements);
    empty = full + Stages;
    if (threadIdx.x == 0) {
      M3_UNROLL for (int i = 0; i < Stages; ++i) {
        initBarrier(full + i, 1);
        initBarrier(empty + i, Consumers);
      }
      fenceBarriers();
    }
  }
  static M3_INLINE i32 stage(i64 i) { return (u32)i % Stages; }
  static M3_INLINE u32 parity(i64 i) { return (u32)i / Stages & 1; }
  static M3_INLINE void waitFor(u64 *barrier, u32 parity) {
    while (!phaseEnded(barrier, parity)) {
    }
  }
  M3_INLINE T *acquire(i64 i) {
    waitFor(empty + stage(i), parity(i) ^ 1); // the phase before the first counts as ended
    if (laneId() == 0)
      arriveExpecting(full + stage(i), Elements * sizeof(T));
    return base + stage(i) * Elements;
  }
  /// One lane starts the copy of a whole stage.
  M3_INLINE void fill(i64 i, const void *from) {
    if (laneId() == 0)
      copyBulk(base + stage(i) * Elements, from, Elements * sizeof(T), full + stage(i));
  }
  M3_INLINE void commit(i64) {} // copies report themselves
  M3_INLINE T *wait(i64 i) {
    // Copies land in any order: until that of the stage's use before has, which another group waits
    // for, the parity says that the one before it has ended, as this one will.
    if constexpr (Stages % Turns)
      waitFor(empty + stage(i), parity(i) ^ 1);
    waitFor(full + stage(i), parity(i));
    return base + stage(i) * Elements;
  }
  M3_INLINE void release(i64 i) {
    warpBarrier();
    if (laneId() == 0)
      arriveAt(empty + stage(i));
  }
};
