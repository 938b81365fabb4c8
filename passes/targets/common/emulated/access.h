// The emulator's form of device/access.h: every access is checked.
#pragma once

#include "vector.h"

template <class T> M3_INLINE T loadAt(const T *p) {
  m3emu::reading(p, sizeof(T));
  return *p;
}
template <class T, class V> M3_INLINE void storeAt(T *p, V value) {
  m3emu::writing(p, sizeof(T));
  *p = (T)value;
}

M3_INLINE u8 *sharedMemory() { return m3emu::self()->shared; }
