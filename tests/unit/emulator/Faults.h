// Planted faults: kernels that are sound, and each with one fault that a macro switches on. The
// emulator must run the sound ones and say what is wrong with the others.
#pragma once

#include "tests/unit/emulator/Bench.h"

namespace m3c::test {

struct PlantedFault {
  const char *name;   ///< of the macro, and of the test
  const char *kernel; ///< one of `soundKernels`
  /// What the report says, and the text of the line that it names (both in part).
  const char *says, *at;
};

inline void PrintTo(const PlantedFault &fault, std::ostream *out) { *out << fault.name; }

/// Kernel by name; all take one buffer of 4096 bytes.
const std::vector<BenchKernel> &soundKernels();
const std::vector<PlantedFault> &plantedFaults();
/// Of those, the ones with tensor memory (TensorFaults.cpp).
const std::vector<BenchKernel> &tensorKernels();
const std::vector<PlantedFault> &tensorFaults();
/// Of those, the ones of two work items with tensor memory (PairFaults.cpp).
const std::vector<BenchKernel> &pairKernels();
const std::vector<PlantedFault> &pairFaults();
/// Of those, the ones of registers that warps give each other (RegisterFaults.cpp).
const std::vector<BenchKernel> &registerKernels();
const std::vector<PlantedFault> &registerFaults();
/// Of those, the ones of products that four warps start together (GroupFaults.cpp).
const std::vector<BenchKernel> &groupKernels();
const std::vector<PlantedFault> &groupFaults();
/// Of those, the ones of waves of 64 lanes (WaveFaults.cpp).
const std::vector<BenchKernel> &waveKernels();
const std::vector<PlantedFault> &waveFaults();

} // namespace m3c::test
