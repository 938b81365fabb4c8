// clang's front and back end in this process, over texts in memory: what the compilers for the host
// and for AMD's GPUs share.
#pragma once

#include "compiler/toolchains/HostCompiler.h"

#include "llvm/ADT/SmallVector.h"

namespace m3c::toolchains {

/// Where generated text and device headers appear to clang.
inline constexpr const char *virtualRoot = "/m3c";

/// The folder with clang's own headers, beside the library that is loaded. Throws Error saying what
/// to install where there is none.
const std::string &clangResourceFolder();
std::string clangVersion();

/// All backends of the LLVM at hand, once.
void initialiseBackends();

/// Compiles `source`, which appears as `file`, with the arguments of `clang -cc1` to an object;
/// `passes`, if there, adds some to the optimiser. Throws Error with the first
/// offending line.
llvm::SmallVector<char, 0> runClang(const std::string &name, const std::string &file,
                                    const std::string &source, const HeaderMap &headers,
                                    std::vector<std::string> arguments,
                                    const std::function<void(llvm::PassBuilder &)> &passes = {});

} // namespace m3c::toolchains
