// Devices that are emulated: libm3emu runs the texts of a plan's kernels on the CPU, every GPU
// thread by itself, and checks what they do. Slow; for tests and for chips that are not at hand.
#pragma once

#include "runtime/drivers/emulator/EmulatorApi.h"
#include "runtime/hal/Hal.h"

#include <functional>
#include <string>

namespace m3c::hal {

struct EmulationOptions {
  std::string target;   ///< "sm90"
  uint64_t seed = 1;    ///< of the order of threads, warps and copies
  unsigned threads = 0; ///< of the CPU; 0: one for each core
};

/// Opens libm3emu: $M3C_EMULATOR, else beside the program (../lib, or its own folder), else where
/// the system looks. Throws Error with all that was tried.
const emulator::Api &loadEmulator();

/// A device that builds kernels from their sources and runs them emulated. `api` as loadEmulator
/// gives it. Throws Error for a target without emulation.
std::unique_ptr<Device> openEmulatedDevice(const emulator::Api &api,
                                           const EmulationOptions &options);

/// What an emulated device has done so far, as one line; empty for another device.
std::string emulationSummary(const Device &device);

} // namespace m3c::hal
