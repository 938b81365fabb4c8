// What scalar regions call: primitives here, the functions built from them in functions.h.
#pragma once

#include "choices.h"

M3_INLINE f32 magnitude(f32 x) { return __builtin_fabsf(x); }
M3_INLINE f32 squareRoot(f32 x) { return __builtin_sqrtf(x); }
M3_INLINE f32 fusedMultiplyAdd(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
M3_INLINE f64 fusedMultiplyAdd(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
M3_INLINE f32 roundEven(f32 x) { return __builtin_rintf(x); }
M3_INLINE f64 roundEven(f64 x) { return __builtin_rint(x); }

#include "functions.h"
