// Accelerators as they are sold, for capacity planning and for the list of targets.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace m3c {

/// One accelerator as its vendor sells it.
struct Accelerator {
  std::string_view name;   ///< as --chip takes it
  std::string_view target; ///< the target that code for it is built as
  uint64_t memoryBytes;    ///< decimal gigabytes of the data sheet
};

std::span<const Accelerator> accelerators();
/// Null when there is none of that name.
const Accelerator *findAccelerator(std::string_view name);

} // namespace m3c
