// From generated C++ text to a shared object for the CPU: clang and lld 22 as libraries, no process
// is started and no file of the build machine enters the result.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace llvm {
class PassBuilder;
}

namespace m3c::toolchains {

/// The instruction set that code is built for, in clang's words.
struct HostIsa {
  std::string cpu;                   ///< "x86-64-v3"
  std::vector<std::string> features; ///< "+avx512vnni"
  unsigned preferredVectorBits = 0;  ///< 0 = the compiler's choice

  /// All of it as one line; part of cache keys.
  std::string text() const;
};

enum class Contraction {
  Off, ///< a·b + c rounds twice unless the source says fma
  On,  ///< within one expression
};

struct HostCompileOptions {
  HostIsa isa;
  Contraction contraction = Contraction::Off;
  int optimisation = 3; ///< 0 … 3
  /// Further arguments of `clang -cc1`; they may not name paths.
  std::vector<std::string> extra;
  /// Adds passes of LLVM; the caller's cache keys say which. Null: none.
  std::function<void(llvm::PassBuilder &)> passes = nullptr;
};

/// Header texts by the path that the source includes them by.
using HeaderMap = std::map<std::string, std::string>;

/// Compiles and links `source`. `name` stands in messages and as the object's soname. The object is
/// relocatable, hides all symbols that the source does not export and needs no library: the only
/// symbols it may leave undefined are memcpy, memmove, memset, memcmp and bcmp. The same input
/// gives the same bytes. Throws Error with the offending line for text that does not compile, and
/// for an object that needs other symbols. Any number of threads may call this at once.
std::vector<std::byte> compileHostObject(const std::string &name, const std::string &source,
                                         const HeaderMap &headers,
                                         const HostCompileOptions &options);

/// For cache keys and manifests, for instance "clang 22.1.8, lld 22.1.8".
std::string hostToolchainVersion();

} // namespace m3c::toolchains
