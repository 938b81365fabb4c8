// Instructions without a spelling in CUDA C++. Inline assembly stands in this file alone.
#pragma once

#include "vector.h"

/// PTX ISA, "prefetch": one line of global memory into the second-level cache.
M3_INLINE void prefetchLine(const u8 *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
