// Made-up weights from a device's own kernel: nothing travels, and no CPU computes.
#pragma once

#include "runtime/hal/Hal.h"
#include "runtime/weights/WeightSource.h"

namespace m3c {

class DeviceMaker {
public:
  /// Nothing where the device has no kernel for it.
  static std::unique_ptr<DeviceMaker> create(hal::Device &device);

  /// Starts to make the part of a weight buffer that comes from `piece`; the buffer begins at byte
  /// `offset` of `memory`, whose bytes are zero.
  void make(hal::Buffer &memory, uint64_t offset, const plan::WeightBuffer &buffer,
            const plan::WeightPiece &piece, const madeup::Values &values);
  /// Waits for all of it.
  void finish() { stream->synchronize(); }

private:
  std::unique_ptr<hal::Module> module;
  std::unique_ptr<hal::Kernel> kernel;
  std::unique_ptr<hal::Stream> stream;
};

} // namespace m3c
