// Who has seen what: vector clocks of the warps of a work item. Every warp counts its own time; a
// barrier joins what its participants have seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace m3c::emulator {

/// What is known of one warp's accesses: all before `time`, and those at `time` of some lanes.
struct Seen {
  uint32_t time = 0;
  uint64_t lanes = 0;

  bool covers(uint32_t when, unsigned lane) const {
    return when < time || (when == time && lanes >> lane & 1);
  }
  void join(const Seen &other) {
    if (other.time > time)
      *this = other;
    else if (other.time == time)
      lanes |= other.lanes;
  }
};

/// One entry for each warp and one for asynchronous copies; where there is tensor memory, then for
/// each warp what it stored there and what it has loaded (TensorMemory.h), and last for each work
/// item the products that it started.
struct Knowledge {
  std::vector<Seen> of;

  void reset(unsigned entries, uint32_t time) { of.assign(entries, {time, 0}); }
  void join(const Knowledge &other) {
    for (size_t i = 0; i < other.of.size(); ++i)
      of[i].join(other.of[i]);
  }
  /// Every access of one of `warps` warps before this is known, whoever did it.
  uint32_t least(size_t warps) const {
    uint32_t time = UINT32_MAX;
    for (size_t i = 0; i < warps; ++i)
      time = of[i].time < time ? of[i].time : time;
    return time;
  }
};

} // namespace m3c::emulator
