// The counter-based generator Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011), section 3.3. A number is a pure function of (key,
// counter): nothing is carried from draw to draw, so a draw does not depend on which others were
// made.
#pragma once

#include <array>
#include <cstdint>

namespace m3c::sample {

/// Four random 32-bit words for a 128-bit counter and a 64-bit key.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0], second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(second >> 32) ^ counter[1] ^ key[0], uint32_t(second),
               uint32_t(first >> 32) ^ counter[3] ^ key[1], uint32_t(first)};
    key[0] += 0x9E3779B9; // golden ratio
    key[1] += 0xBB67AE85; // square root of 3, minus 1
  }
  return counter;
}

/// A double in [0, 1) with 53 random bits, for the draw `index` (0, 1, …) at `position` of a
/// sequence.
constexpr double philoxUniform(uint64_t seed, uint64_t position, uint32_t index = 0) {
  auto words = philox4x32({uint32_t(position), uint32_t(position >> 32), index, 0},
                          {uint32_t(seed), uint32_t(seed >> 32)});
  uint64_t bits = ((uint64_t(words[1]) << 32) | words[0]) >> 11;
  return double(bits) * 0x1p-53;
}

} // namespace m3c::sample
