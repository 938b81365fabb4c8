// What a kernel's machine code takes of an AMD GPU, read from the notes of the code object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace m3c::toolchains {

struct HipResources {
  std::string kernel;
  unsigned vectorRegisters = 0;      ///< 32-bit registers of one lane, accumulators included
  unsigned accumulatorRegisters = 0; ///< of these, those that only matrix instructions name
  unsigned scalarRegisters = 0;      ///< of one wave
  unsigned maxThreads = 0;           ///< of a work item
  unsigned lanes = 0;                ///< of a wave
  uint64_t scratchBytes = 0;         ///< memory of one lane: spilled registers and indexed arrays
  uint64_t sharedBytes = 0;          ///< declared in the text; what a launch adds is not here
  uint64_t argumentBytes = 0;
  unsigned hiddenArguments = 0; ///< that a launch must fill in beside the explicit ones
};

/// One entry for each kernel of the object, in order of name. Throws Error for bytes that are no
/// code object of an AMD GPU.
std::vector<HipResources> readHipResources(const std::string &name,
                                           std::span<const std::byte> object);

} // namespace m3c::toolchains
