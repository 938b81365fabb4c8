// Conversions of E2M1 and arithmetic of FP16 pairs that CUDA C++ has no spelling for, of chips that
// know the format.
#pragma once

#include "atoms.h"

/// PTX ISA, "cvt": the two E2M1 codes of a byte (0 … 3) of a word to FP16, exact, the low one to
/// the low half. The byte is a constant wherever this is inlined.
M3_INLINE u32 f16OfE2m1(u32 word, int byte) {
  u32 pair;
  if (byte == 0)
    asm("{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, %1; cvt.rn.f16x2.e2m1x2 %0, a; }"
        : "=r"(pair)
        : "r"(word));
  else if (byte == 1)
    asm("{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, %1; cvt.rn.f16x2.e2m1x2 %0, b; }"
        : "=r"(pair)
        : "r"(word));
  else if (byte == 2)
    asm("{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, %1; cvt.rn.f16x2.e2m1x2 %0, c; }"
        : "=r"(pair)
        : "r"(word));
  else
    asm("{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, %1; cvt.rn.f16x2.e2m1x2 %0, d; }"
        : "=r"(pair)
        : "r"(word));
  return pair;
}
/// PTX ISA, "mul": two FP16 products, nearest even.
M3_INLINE u32 multiplyF16(u32 a, u32 b) {
  u32 pair;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
  return pair;
}
/// PTX ISA, "cvt": two FP16 to E4M3, nearest even, saturating, NaN 0x7f; the low one to the low
/// byte.
M3_INLINE u32 e4m3OfF16(u32 pair) {
  u16 codes;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(codes) : "r"(pair));
  return codes;
}
