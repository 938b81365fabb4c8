// From generated HIP C++ text to a code object for one AMD GPU: clang and lld 22 as libraries.
// Nothing of ROCm is needed, and no header or file of the build machine enters the result.
#pragma once

#include "compiler/toolchains/HostCompiler.h"

namespace m3c::toolchains {

struct HipCompileOptions {
  std::string arch; ///< in clang's words: "gfx950"
  Contraction contraction = Contraction::Off;
  /// Further arguments of `clang -cc1`; they may not name paths.
  std::vector<std::string> extra = {};
};

/// Compiles and links `source`, which appears as "`kernel`.hip" in messages and may include
/// `headers` by their names. The same input gives the same bytes. Throws Error with the offending
/// line for text that does not compile, and saying what to install when LLVM has no backend for
/// AMD's GPUs. Any number of threads may call this at once.
std::vector<std::byte> compileHipObject(const std::string &kernel, const std::string &source,
                                        const HeaderMap &headers, const HipCompileOptions &options);

/// Throws Error saying what to install when LLVM has no backend for `triple`; `what` names the
/// chips in the message.
void requireBackend(const std::string &triple, const std::string &what);

} // namespace m3c::toolchains
