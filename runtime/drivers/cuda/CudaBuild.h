// Code objects from the source texts in a plan, by the vendor's run-time compiler where this
// machine has one. A plan with code for the device needs none of this.
#pragma once

#include "runtime/drivers/cuda/CudaDevice.h"

namespace m3c::hal::cuda {

/// Machine code for `architecture` ("sm_90a"). What was built once is kept in the user's cache
/// folder (runtime/base/ContentCache.h) under the digest of text, headers, options and compiler.
/// Throws Error saying what to install when there is no libnvrtc that knows the architecture
/// (runtime/drivers/nvrtc/Library.h says where it is looked for), and with the compiler's log for
/// text that does not compile. Any number of threads may call this at once.
std::vector<std::byte> buildCuda(const SourceText &source, const std::string &name,
                                 const std::string &architecture);

} // namespace m3c::hal::cuda
