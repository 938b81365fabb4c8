// Random weights as operands of matrix instructions.
#pragma once

#include "runtime/base/Formats.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace m3c::numerics {

/// The value of a BF16 code.
inline double valueOf(uint16_t code) { return std::bit_cast<float>(uint32_t(code) << 16); }

/// A weight [outputs, inputs] in its encoding, as fragments (FragmentWords of plan.fbs): what lane
/// 4g + t of panel p has of 64 k are rows g and g + 8, the sixteen k from 16t on.
struct FragmentWeight {
  int64_t outputs, inputs;
  bool mxfp8;
  std::vector<float> words, scales; ///< bytes of the buffers
  std::vector<double> values;       ///< [outputs, inputs]

  FragmentWeight(int64_t outputs, int64_t inputs, bool mxfp8)
      : outputs(outputs), inputs(inputs), mxfp8(mxfp8), values(size_t(outputs * inputs)) {
    std::mt19937 random(unsigned(outputs + inputs));
    std::normal_distribution<float> normal;
    std::vector<uint8_t> bytes(size_t(outputs * inputs * (mxfp8 ? 1 : 2)));
    std::vector<uint8_t> scaleBytes(size_t(outputs * inputs / 32));
    for (int64_t n = 0; n < outputs; ++n)
      for (int64_t k = 0; k < inputs; ++k) {
        int64_t unit = n / 16 * (inputs / 64) + k / 64;
        int64_t g = n % 8, half = n / 8 % 2, t = k % 64 / 16, i = k % 16;
        double &value = values[size_t(n * inputs + k)];
        if (!mxfp8) {
          uint16_t code =
              uint16_t(std::bit_cast<uint32_t>(formats::roundToBf16(normal(random))) >> 16);
          int64_t word = 8 * half + i / 2;
          int64_t at = ((unit * 4 + word / 4) * 32 + 4 * g + t) * 4 + word % 4;
          std::memcpy(&bytes[size_t(at * 4 + i % 2 * 2)], &code, 2);
          value = valueOf(code);
          continue;
        }
        // Of four k in a word the second and the third have changed places.
        uint8_t code = uint8_t(random() % 127 | (random() % 2 << 7));
        uint8_t scale = uint8_t(124 + (n * 7 + k / 32 * 5) % 9);
        int64_t at = ((unit * 2 + half) * 32 + 4 * g + t) * 4 + i / 4;
        int64_t byte[4] = {0, 2, 1, 3};
        bytes[size_t(at * 4 + byte[i % 4])] = code;
        scaleBytes[size_t((unit * 16 + 2 * g + t / 2) * 2 + half)] = scale;
        int exponent = code >> 3 & 15, mantissa = code & 7;
        double size = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
        value = (code & 128 ? -size : size) * std::ldexp(1.0, scale - 127);
      }
    words.resize(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    scales.resize(scaleBytes.size() / 4);
    std::memcpy(scales.data(), scaleBytes.data(), scaleBytes.size());
  }
};

} // namespace m3c::numerics
