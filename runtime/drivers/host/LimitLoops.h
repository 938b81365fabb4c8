// The loops that HostLimits times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace m3c::hal {

/// Loads every byte of an area, with the widest loads that the processor has. `bytes` is a multiple
/// of 1024, `from` aligned to 64.
void readLines(const std::byte *from, uint64_t bytes);

struct ArithmeticLoop {
  void (*run)(uint64_t rounds) = nullptr;
  double operations = 0; ///< FP32 operations of a round
};
/// Independent chains of fused multiply-adds in registers; `run` is null for an unknown or missing
/// instruction set.
ArithmeticLoop arithmeticLoop(std::string_view set);

/// `count` additions, each on the result of the one before; a multiple of 64.
void chainAdditions(uint64_t count);

} // namespace m3c::hal
