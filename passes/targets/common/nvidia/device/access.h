// Memory, element by element: what memory.h and fragments.h are built on. The emulator has a form
// of its own of this file, which checks every access.
#pragma once

#include "vector.h"

template <class T> M3_INLINE T loadAt(const T *p) { return *p; }
template <class T, class V> M3_INLINE void storeAt(T *p, V value) { *p = (T)value; }

/// The memory that the warps of a work item share.
M3_INLINE u8 *sharedMemory() {
  extern __shared__ __align__(1024) u8 sharedBytes[];
  return sharedBytes;
}
