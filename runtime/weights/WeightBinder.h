// Builds a plan's weight buffers from a source, by the recipes of plan.fbs.
#pragma once

#include "runtime/hal/Hal.h"
#include "runtime/weights/WeightSource.h"

#include <functional>

namespace m3c {

/// Called with bytes done, bytes in all and the tensor at hand; from one thread at a time.
using WeightProgress = std::function<void(uint64_t done, uint64_t total, std::string_view tensor)>;

/// The weight buffers that a target of a plan reads, in one allocation.
class Weights {
public:
  /// Bytes that `bind` allocates.
  static uint64_t bytesNeeded(const plan::Tables &tables, const plan::Target &target);

  /// Checks every piece, then reads and repacks with `threads` threads. The first fault found, in
  /// the order of the tables, is thrown as Error.
  static Weights bind(const plan::Tables &tables, const plan::Target &target,
                      const WeightSource &source, hal::Device &device, unsigned threads,
                      const WeightProgress &progress = {});

  /// Device address of buffer `index` of the tables.
  uint64_t address(uint32_t index) const { return memory->address() + offsets.at(index); }
  /// Bytes of buffer `index`, where the CPU can reach them.
  std::span<const std::byte> bytes(uint32_t index) const;
  uint64_t totalBytes() const { return memory->size(); }
  /// All of them.
  const hal::Buffer &buffer() const { return *memory; }

private:
  /// Places every buffer that the target reads.
  Weights(const plan::Tables &tables, const plan::Target &target);

  static constexpr uint64_t absent = UINT64_MAX;
  std::unique_ptr<hal::Buffer> memory;
  std::vector<uint64_t> offsets, sizes; ///< an offset is `absent` where the target reads none
  uint64_t total = 0;
};

} // namespace m3c
