// The emulator's form of device/mixed_atoms.h.
#pragma once

#include "fp4_atoms.h"

M3_INLINE void fmaMixed(f32 &sum0, f32 &sum1, u32 a, f32 b0, f32 b1) {
  sum0 = __builtin_fmaf(f32OfF16(a), b0, sum0);
  sum1 = __builtin_fmaf(f32OfF16(a >> 16), b1, sum1);
}
