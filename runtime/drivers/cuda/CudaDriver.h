// The driver of NVIDIA GPUs: CUDA's driver API, opened when it is first asked for.
#pragma once

#include "runtime/hal/Hal.h"

namespace m3c::hal {

/// `library` is what is opened; tests give another than the system's.
std::unique_ptr<Driver> createCudaDriver(std::string library = "libcuda.so.1");

} // namespace m3c::hal
