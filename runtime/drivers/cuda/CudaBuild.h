// Code objects from the source texts in a plan, by the vendor's run-time compiler where this
// machine has one. A plan with code for the device needs none of this.
#pragma once

#include "runtime/drivers/cuda/CudaDevice.h"

namespace m3c::hal::cuda {

/// Machine code for `architecture` ("sm_90a"). Looks for libnvrtc at M3C_NVRTC (a library or its
/// folder; then nowhere else), in the library path, in /usr/local/cuda and in the wheels of
/// $VIRTUAL_ENV. Throws Error saying what to install when there is none that knows the
/// architecture, and with the compiler's log for text that does not compile. Any number of threads
/// may call this at once.
std::vector<std::byte> buildCuda(const SourceText &source, const std::string &name,
                                 const std::string &architecture);

} // namespace m3c::hal::cuda
