// The rounding steps of the model's numerics (docs/numerics.md). A double enters each step as the
// nearest F32 value: that is the one named conversion point of the interpreter, since kernels round
// F32.
#pragma once

#include <cstdint>
#include <span>

namespace m3c::interpreter {

enum class Step {
  None,
  Bf16,      ///< F32, BF16
  E4m3,      ///< F32, BF16, E4M3 (saturating, unit scale)
  Nvfp4,     ///< F32, BF16, E2M1 codes with an E4M3 scale per 16 values
  Nvfp4E4m3, ///< as Nvfp4, then code · scale to E4M3
  Mxfp8,     ///< F32, E4M3 with the power-of-two scale 2^ceil(log2(amax/448)) per 32 values
};

/// Rounds `values` in place; their count is a multiple of the step's group.
void roundValues(Step step, std::span<double> values);

/// The stored form of 16 values: nibble codes and one E4M3 scale byte.
struct Nvfp4Group {
  uint8_t codes[16];
  uint8_t scale;
};
Nvfp4Group encodeNvfp4(std::span<const double, 16> values);

} // namespace m3c::interpreter
