// Sums of products as matrix units make them. The accumulation is not that of IEEE additions:
// products are exact; they and the accumulator are aligned to the largest exponent among them,
// each is cut (towards zero) to `fraction` bits behind the point, the sum of these is exact and is
// cut to FP32. No vendor documents this; measured by Fasi et al. (PeerJ CS 2021), Khattak and
// Mikaitis (arXiv 2512.07004) and Xie et al. (arXiv 2511.10909), which has `fraction` = 25 and 16
// products of 16-bit elements at once for Hopper and Blackwell.
#pragma once

namespace m3emu {

/// A significand (value · 2^-bits) and its exponent; subnormals keep the lowest exponent.
struct Part {
  int significand, exponent;
};

/// Formats by bits of exponent and mantissa, with infinities and NaN.
template <int exponentBits, int mantissaBits> struct Format {
  static constexpr int bits = mantissaBits, bias = (1 << (exponentBits - 1)) - 1;
  static constexpr int mantissa = (1 << mantissaBits) - 1, special = (1 << exponentBits) - 1;
  static M3EMU_INLINE Part part(unsigned code) {
    const int field = (int)(code >> mantissaBits) & special;
    const int size = ((int)code & mantissa) | (field ? mantissa + 1 : 0);
    return {code >> (exponentBits + mantissaBits) & 1 ? -size : size, (field ? field : 1) - bias};
  }
  static M3EMU_INLINE bool isSpecial(unsigned code) {
    return ((int)(code >> mantissaBits) & special) == special;
  }
  static M3EMU_INLINE double value(unsigned code) {
    if (isSpecial(code)) {
      const double infinite =
          code >> (exponentBits + mantissaBits) & 1 ? -__builtin_inf() : __builtin_inf();
      return (int)code & mantissa ? __builtin_nan("") : infinite;
    }
    const Part p = part(code);
    // 2^-300 … 2^300: no double is left
    return (double)p.significand *
           __builtin_bit_cast(double, (unsigned long)(p.exponent - bits + 1023) << 52);
  }
};
using Bf16 = Format<8, 7>;
using F16 = Format<5, 10>;
using F32 = Format<8, 23>;
/// Without infinities; one code of each sign is NaN.
struct E4m3 : Format<4, 3> {
  static M3EMU_INLINE bool isSpecial(unsigned code) { return (code & 0x7f) == 0x7f; }
  static M3EMU_INLINE double value(unsigned code) {
    if (isSpecial(code))
      return __builtin_nan("");
    const Part p = part(code);
    return (double)p.significand *
           __builtin_bit_cast(double, (unsigned long)(p.exponent - bits + 1023) << 52);
  }
};

/// sum · 2^exponent, cut to FP32.
M3EMU_INLINE float cutToFloat(long sum, int exponent) {
  if (!sum)
    return 0;
  const unsigned long size = sum < 0 ? -(unsigned long)sum : (unsigned long)sum;
  int top = 63 - __builtin_clzl(size); // value = 1.… · 2^(exponent + top)
  int field = exponent + top + 127, shift = top - 23;
  if (field < 1) { // subnormal: step 2^-149
    shift += 1 - field;
    field = 0;
  }
  const unsigned long kept = shift > 63 ? 0 : shift >= 0 ? size >> shift : size << -shift;
  unsigned code = field >= 255 ? 0x7f800000u : (unsigned)(kept & 0x7fffff) | (unsigned)field << 23;
  return __builtin_bit_cast(float, code | (sum < 0 ? 0x80000000u : 0u));
}

/// Of any infinity or NaN among the operands.
template <class A, class B, int K>
__attribute__((noinline)) float specialSum(const unsigned short *a, const unsigned short *b,
                                           float c) {
  double sum = c;
  for (int k = 0; k < K; ++k)
    sum += A::value(a[k]) * B::value(b[k]);
  return sum != sum ? __builtin_bit_cast(float, 0x7fffffffu) : (float)sum;
}

/// c + Σ a[k] b[k], k < K, at once. Codes of 16 bits.
template <class A, class B, int K, int fraction>
M3EMU_INLINE float fusedSum(const unsigned short *a, const unsigned short *b, float c) {
  constexpr int lowest = -126; // what a zero counts as
  int products[K], exponents[K];
  bool special = F32::isSpecial(__builtin_bit_cast(unsigned, c));
  int largest = lowest;
  for (int k = 0; k < K; ++k) {
    const Part pa = A::part(a[k]), pb = B::part(b[k]);
    special |= A::isSpecial(a[k]) | B::isSpecial(b[k]);
    products[k] = pa.significand * pb.significand;
    exponents[k] = products[k] ? pa.exponent + pb.exponent : lowest;
    largest = largest > exponents[k] ? largest : exponents[k];
  }
  if (__builtin_expect(special, false))
    return specialSum<A, B, K>(a, b, c);
  const Part pc = F32::part(__builtin_bit_cast(unsigned, c));
  const int exponent = pc.significand ? pc.exponent : lowest;
  largest = largest > exponent ? largest : exponent;
  constexpr int up = fraction - A::bits - B::bits;
  long sum = 0;
  for (int k = 0; k < K; ++k) {
    const int down = largest - exponents[k] < 31 ? largest - exponents[k] : 31;
    const int size = products[k] < 0 ? -products[k] : products[k];
    const int cut =
        up >= 0 ? (size << (up >= 0 ? up : 0)) >> down : size >> (down - up < 31 ? down - up : 31);
    sum += products[k] < 0 ? -cut : cut;
  }
  const int down = largest - exponent < 31 ? largest - exponent : 31;
  const int size = pc.significand < 0 ? -pc.significand : pc.significand;
  const int cut = (size << (fraction - 23)) >> down;
  sum += pc.significand < 0 ? -cut : cut;
  return cutToFloat(sum, largest - fraction);
}

} // namespace m3emu
