// Scalar conversions of the storage formats: BF16, E4M3 (OCP FP8, no infinities), E8M0 scales and
// E2M1. These are the definitions that quantisers, the interpreter and the tests share;
// docs/numerics.md and the OCP Microscaling specification 1.0 give the arithmetic.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace m3c::formats {

inline constexpr double e2m1Magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
inline constexpr float e4m3Max = 448.0f;

inline float bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Round to nearest even; NaN stays NaN.
inline uint16_t floatToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float roundToBf16(float value) { return bf16ToFloat(floatToBf16(value)); }

/// 0x7f and 0xff are NaN; every other code is finite.
inline float e4m3ToFloat(uint8_t code) {
  int exponent = (code >> 3) & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7)
    return std::numeric_limits<float>::quiet_NaN();
  float magnitude = exponent == 0 ? std::ldexp(float(mantissa), -9)
                                  : std::ldexp(float(8 + mantissa), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

/// Round to nearest even, saturating at ±448 (the "satfinite" of the PTX ISA); NaN gives 0x7f.
inline uint8_t floatToE4m3(float value) {
  if (std::isnan(value))
    return 0x7f;
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  float magnitude = std::fabs(value);
  if (magnitude >= e4m3Max)
    return sign | 0x7e;
  // Below 2^-6 the grid is uniform with step 2^-9; above, 3 mantissa bits.
  int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  float scaled = std::nearbyint(std::ldexp(magnitude, 3 - exponent)); // ties to even
  int steps = int(scaled);
  if (steps == 16) {
    steps = 8;
    ++exponent;
  }
  if (steps < 8)
    return sign | uint8_t(steps); // subnormal
  return std::min<int>(0x7e, ((exponent + 7) << 3) | (steps - 8)) | sign;
}

inline float roundToE4m3(float value) { return e4m3ToFloat(floatToE4m3(value)); }

/// Power-of-two scale 2^(code-127); 0xff is NaN.
inline double e8m0ToDouble(uint8_t code) {
  return code == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, int(code) - 127);
}

/// Nibble to value; -0 (0x8) decodes to 0.
inline double e2m1ToDouble(uint8_t nibble) {
  double magnitude = e2m1Magnitudes[nibble & 7];
  return (nibble & 8) && magnitude != 0 ? -magnitude : magnitude;
}

/// Nearest E2M1 code of value/scale, ties to even, by exact comparison of |value| with bound·scale.
/// Never gives -0. `scale` must be positive.
inline uint8_t encodeE2m1(float value, float scale) {
  float magnitude = std::fabs(value);
  uint8_t code = magnitude > 5 * scale        ? 7
                 : magnitude >= 3.5f * scale  ? 6
                 : magnitude > 2.5f * scale   ? 5
                 : magnitude >= 1.75f * scale ? 4
                 : magnitude > 1.25f * scale  ? 3
                 : magnitude >= 0.75f * scale ? 2
                 : magnitude > 0.25f * scale  ? 1
                                              : 0;
  return code != 0 && std::signbit(value) ? code | 8 : code;
}

/// Scale byte of one NVFP4 cache group of 16 values whose largest magnitude is `amax`
/// (docs/numerics.md).
inline uint8_t nvfp4GroupScale(float amax) {
  return floatToE4m3(std::clamp(std::max(amax, 1e-12f) / 6.0f, 1.0f / 512.0f, e4m3Max));
}

/// Rotary frequency i of `rotary` dimensions in FP32: the reciprocal of the FP32 power
/// theta^(2i/rotary), two roundings, as the reference implementation forms it; one rounding of
/// theta^(-2i/rotary) differs from it in the last place for some i, which shifts angles at large
/// positions.
inline float ropeFrequency(double theta, int64_t i, int64_t rotary) {
  return 1.0f / float(std::pow(theta, double(float(2 * i) / float(rotary))));
}

} // namespace m3c::formats
