// What a kernel's machine code takes of a GPU, read from the object itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace m3c::toolchains {

struct CudaResources {
  std::string kernel;
  unsigned registers = 0;   ///< 32-bit registers of one thread
  unsigned maxThreads = 0;  ///< of a block, where __launch_bounds__ says it; 0 = not said
  unsigned barriers = 0;    ///< named barriers
  uint64_t stackBytes = 0;  ///< local memory of one thread: spilled registers and indexed arrays
  uint64_t sharedBytes = 0; ///< declared in the text; what a launch adds is not here
  uint64_t codeBytes = 0;
};

/// One entry for each kernel of the object, in order of name. Throws Error for bytes that are no
/// CUDA object.
std::vector<CudaResources> readCudaResources(const std::string &name,
                                             std::span<const std::byte> object);

} // namespace m3c::toolchains
