// The emulator's form of device/fp4_atoms.h.
#pragma once

#include "atoms.h"

/// Sign, two bits of exponent with bias 1, one of mantissa.
M3_INLINE u32 f16OfOneE2m1(u32 code) {
  const u32 sign = (code & 8u) << 12, exponent = code >> 1 & 3u, mantissa = code & 1u;
  if (exponent)
    return sign | (exponent + 14) << 10 | mantissa << 9;
  return mantissa ? sign | 14u << 10 : sign; // 0.5, the one subnormal
}
M3_INLINE u32 f16OfE2m1(u32 word, int byte) {
  const u32 codes = word >> 8 * byte;
  return f16OfOneE2m1(codes & 15u) | f16OfOneE2m1(codes >> 4 & 15u) << 16;
}

M3_INLINE f32 f32OfF16(u32 half) { return (f32) __builtin_bit_cast(_Float16, (u16)half); }
/// A product of two FP16 fits FP32, so it is rounded once.
M3_INLINE u32 multiplyF16(u32 a, u32 b) {
  return f16Of(f32OfF16(a) * f32OfF16(b)) | f16Of(f32OfF16(a >> 16) * f32OfF16(b >> 16)) << 16;
}
M3_INLINE u32 e4m3OfF16(u32 pair) {
  return e4m3Of(f32OfF16(pair)) | e4m3Of(f32OfF16(pair >> 16)) << 8;
}
