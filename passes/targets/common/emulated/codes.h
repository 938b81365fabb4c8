// Conversions between formats, as all chips define them.
#pragma once

namespace m3emu {

/// Sign, four bits of exponent with bias 7, three of mantissa; 0x7f and 0xff are NaN. Every value
/// is one of FP16.
M3EMU_APART unsigned f16OfE4m3(unsigned code) {
  const unsigned sign = (code & 0x80u) << 8, exponent = code >> 3 & 15u, mantissa = code & 7u;
  if ((code & 0x7fu) == 0x7fu)
    return 0x7fffu;
  if (exponent)
    return sign | (exponent + 8) << 10 | mantissa << 7;
  if (!mantissa)
    return sign;
  const unsigned top = 31 - (unsigned)__builtin_clz(mantissa); // 2^(top − 9) · 1.…
  return sign | (top + 6) << 10 | (mantissa << (10 - top) & 0x3ffu);
}
M3EMU_INLINE float valueOfE4m3(unsigned code) {
  return (float)__builtin_bit_cast(_Float16, (unsigned short)f16OfE4m3(code));
}

M3EMU_INLINE unsigned f16Of(float x) {
  return x != x ? 0x7fffu : (unsigned)__builtin_bit_cast(unsigned short, (_Float16)x);
}

/// The nearest code, of two equally near ones the even one, at most 448. Codes of one sign are in
/// the order of their values, eight to each power of two.
M3EMU_APART unsigned e4m3Of(float x) {
  if (x != x)
    return 0x7fu;
  const unsigned sign = __builtin_bit_cast(unsigned, x) >> 24 & 0x80u;
  const float size = __builtin_fabsf(x);
  if (size >= 448)
    return sign | 0x7eu;
  int exponent = (int)(__builtin_bit_cast(unsigned, size) >> 23) - 127;
  exponent = exponent < -6 ? -6 : exponent; // below, the step is that of 2^-6
  const float step = __builtin_bit_cast(float, (unsigned)(exponent - 3 + 127) << 23);
  return sign | (unsigned)((exponent + 6) * 8 + (int)__builtin_rintf(size / step));
}

M3EMU_INLINE unsigned bf16Of(float x) {
  const unsigned bits = __builtin_bit_cast(unsigned, x);
  return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/// The nearest FP32 of 2^x. Subnormals count as zero.
M3EMU_APART float nearestPower(float x) {
  if (x != x)
    return __builtin_nanf("");
  if (x >= 128.0f)
    return __builtin_inff();
  if (x < -126.0f)
    return 0;
  const double whole = __builtin_rint((double)x);
  const double t = ((double)x - whole) * 0x1.62e42fefa39efp-1; // ln 2
  double sum = 1;
  for (int i = 14; i > 0; --i) // |t| ≤ 0.35: the rest is below 2^-60
    sum = 1 + sum * t / i;
  return (float)(sum * __builtin_bit_cast(double, (unsigned long)((long)whole + 1023) << 52));
}

} // namespace m3emu
