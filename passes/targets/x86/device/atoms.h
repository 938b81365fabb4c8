// What only assembly can say.
#pragma once

#include "vector.h"

/// Starts to bring the 64 bytes at p into the first-level cache, past the others. The instruction's
/// place stands in section `m3_streams` (its distance, 32 bits): where streams are faster through
/// the other caches, who loads the code changes it (runtime/drivers/host/Streams.h).
M3_INLINE void streamLine(const void *p) {
  asm volatile("0: prefetchnta %0\n\t"
               ".pushsection m3_streams, \"aR\", @progbits\n\t"
               ".long 0b - .\n\t"
               ".popsection"
               :
               : "m"(*(const u8 *)p));
}
