// How many registers the threads of a work item begin with where its text says how many of them a
// multiprocessor is to hold. The chip's compiler, the passes and the emulator must agree on it: the
// sum of what roles have is bounded by it, and a role that waits for registers beyond it waits for
// ever. tests/disasm compares it with what NVRTC makes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace m3c {

/// Of a multiprocessor with `registers` (32 bits each) that holds `residents` work items of `warps`
/// warps: in eights for each of 32 lanes, all warps counted in fours (a multiprocessor has four
/// parts), at most what one thread can name.
constexpr int64_t registersAtEntry(int64_t registers, int64_t warps, int64_t residents) {
  constexpr int64_t lanes = 32, granule = 8, parts = 4, most = 256;
  int64_t threads = (residents * warps + parts - 1) / parts * parts * lanes;
  return threads <= 0 ? 0 : std::min(most, registers / threads / granule * granule);
}

} // namespace m3c
