// Memory, element by element: what boxes.h, memory.h and operands.h are built on. The emulator has
// a form of its own of this file, which checks every access.
#pragma once

#include "vector.h"

template <class T> M3_INLINE T loadAt(const T *p) { return *p; }
template <class T, class V> M3_INLINE void storeAt(T *p, V value) { *p = (T)value; }

/// The memory that the waves of a work item share.
M3_INLINE u8 *sharedMemory() {
  extern __shared__ __attribute__((aligned(64))) u8 sharedBytes[];
  return sharedBytes;
}
