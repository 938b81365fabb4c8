// `m3c build-kernel`: tile text, edited by hand or not, to machine code.
#pragma once

#include "compiler/driver/Kernels.h"

namespace m3c {

struct BuiltKernel {
  std::string name, chip;
  KernelText text;
  BuildResult result;
};

/// Reads a module with tile.kernel ops from `path`, selects atoms, assigns memory, checks limits
/// and builds each kernel for each of `chips` ("" = all of the target). A kernel whose memory is
/// assigned already is assigned anew. Throws Error with file and line for text that does not read
/// or verify.
std::vector<BuiltKernel> buildKernelFile(const std::string &path, const Target &target,
                                         const std::vector<std::string> &chips);

} // namespace m3c
