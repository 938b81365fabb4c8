// Faults that a test plants into the device headers of kernels, to see that it finds them.
#pragma once

#include "tests/numerics/KernelProgram.h"

#include <ostream>

namespace m3c::numerics {

/// In header `file` the first `from` becomes `to`.
struct HeaderFault {
  const char *name, *file, *from, *to;
};
inline void PrintTo(const HeaderFault &fault, std::ostream *out) { *out << fault.name; }

/// Builds the chip's own kernels again, with the fault in their headers. Throws where the headers
/// have no place for it.
void plant(KernelProgram &built, const std::string &chip, const HeaderFault &fault);

} // namespace m3c::numerics
