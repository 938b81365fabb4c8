// From the CPU to memory that it cannot reach: two stages of memory that the device reads by
// itself, one being filled while the other one travels.
#pragma once

#include "runtime/hal/Hal.h"

#include <array>

namespace m3c {

class Staging {
public:
  /// `bytes`: most that is sent at once.
  Staging(hal::Device &device, uint64_t bytes);
  ~Staging(); ///< waits for what travels
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  /// Memory to fill, once what it held before has arrived.
  std::byte *stage();
  /// Starts to send the first `bytes` of that memory.
  void send(hal::Buffer &to, uint64_t offset, uint64_t bytes);
  /// Waits until everything has arrived. Throws Error when something did not.
  void finish();

private:
  struct Stage {
    std::unique_ptr<hal::Buffer> memory;
    std::unique_ptr<hal::Event> sent;
  };
  std::unique_ptr<hal::Stream> stream;
  std::array<Stage, 2> stages;
  size_t current = 0;
};

} // namespace m3c
