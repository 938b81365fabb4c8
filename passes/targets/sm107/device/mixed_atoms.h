// The mixed fused multiply-add that CUDA C++ has no spelling for.
#pragma once

#include "fp4_atoms.h"

/// PTX ISA, "fma": sum[i] += a · b[i] of two FP32, a an FP16 pair, each rounded once.
M3_INLINE void fmaMixed(f32 &sum0, f32 &sum1, u32 a, f32 b0, f32 b1) {
  asm("{ .reg .b64 b, c; mov.b64 b, {%3, %4}; mov.b64 c, {%0, %1};\n"
      "fma.rn.f32x2.f16x2.f32x2.f32x2 c, %2, b, c; mov.b64 {%0, %1}, c; }"
      : "+f"(sum0), "+f"(sum1)
      : "r"(a), "f"(b0), "f"(b1));
}
