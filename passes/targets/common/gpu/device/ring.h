// A ring that one warp fills and drains.
#pragma once

#include "vector.h"

/// Stages of equal buffers. One warp is producer and consumer, so a position is enough.
template <class T, int Stages, int Elements> struct Ring {
  T *base;
  int head = 0, tail = 0;
  M3_INLINE explicit Ring(T *base) : base(base) {}
  M3_INLINE T *acquire() { return base + i64(head) * Elements; }
  M3_INLINE void commit() { head = head + 1 == Stages ? 0 : head + 1; }
  M3_INLINE T *wait() { return base + i64(tail) * Elements; }
  M3_INLINE void release() { tail = tail + 1 == Stages ? 0 : tail + 1; }
};
