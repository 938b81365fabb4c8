// The calling convention of a kernel built for the host CPU. One call runs one work item of the
// launch's grid on the calling thread.
#pragma once

#include <cstdint>

namespace m3c::hal {

/// `params[i]` points at the value of parameter i (a pointer or an int64), as in the CUDA driver's
/// kernelParams. `shared` is the worker's scratch memory of the kernel's `shared_bytes`, 64-byte
/// aligned, its content undefined on entry.
using HostKernelFn = void (*)(void *const *params, uint32_t x, uint32_t y, uint32_t z,
                              void *shared);

} // namespace m3c::hal
