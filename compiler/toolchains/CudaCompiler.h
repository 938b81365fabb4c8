// From generated CUDA C++ text to machine code for one chip, by NVRTC in this process: no header
// and no file of the build machine enters the result.
#pragma once

#include "compiler/toolchains/HostCompiler.h"

namespace m3c::toolchains {

struct CudaCompileOptions {
  std::string arch; ///< in NVRTC's words, with its suffix: "sm_90a"
  Contraction contraction = Contraction::Off;
  /// Refuse code of which the assembler says that it could not be built as written: an ignored
  /// setmaxnreg, matrix instructions that it had to serialise.
  bool strict = true;
  /// Further options of NVRTC; they may not name paths.
  std::vector<std::string> extra = {};
};

/// Compiles `source`, which appears as "`kernel`.cu" in messages and may include `headers` by their
/// names. The same input gives the same bytes. Throws Error with the compiler's log for text that
/// does not compile, and naming what to install when no NVRTC can build for the architecture. Any
/// number of threads may call this at once.
std::vector<std::byte> compileCudaObject(const std::string &kernel, const std::string &source,
                                         const HeaderMap &headers,
                                         const CudaCompileOptions &options);

/// The compiler's options, but for the architecture.
std::vector<std::string> cudaSourceOptions(const CudaCompileOptions &options);

/// The same up to PTX text.
std::string compileCudaAssembly(const std::string &kernel, const std::string &source,
                                const HeaderMap &headers, const CudaCompileOptions &options);

/// Whether the compiler for `arch` builds a text, such as one with an instruction that older ones
/// do not know; true where there is no compiler at all, so that the build says what to install.
/// Answers are kept.
bool cudaBuilds(const std::string &arch, const std::string &text);

/// For cache keys and manifests: "NVRTC 13.5 (XXH3-128 of the library)". Throws Error as
/// compileCudaObject does when there is none for `arch`.
std::string cudaToolchainVersion(const std::string &arch);

} // namespace m3c::toolchains
