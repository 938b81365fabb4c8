// NVRTC, the vendor's run-time compiler, opened when it is first needed: several may be installed
// (wheels, toolkits, the system's), and the newest that can build for an architecture is taken. The
// compiler builds a plan's kernels with it, the runtime those that a plan has only as source.
#pragma once

#include "runtime/drivers/nvrtc/Api.h"

namespace m3c::nvrtc {

/// One library that was found and opened. Libraries stay open until the process ends.
struct Library {
  std::string path;
  int major = 0, minor = 0;
  std::vector<int> architectures; ///< 75, 80, 90, …
  Api call;

  std::string version() const; ///< "13.5"
  /// True when this library builds the smallest kernel for `arch`, e.g. "sm_90a".
  bool canBuild(const std::string &arch) const;
  /// XXH3-128 of the library's file and of its built-in functions' file, as hexadecimal digits.
  std::string digest() const;
};

/// What a search came across: usable libraries, newest first, and what was wrong with the others.
struct Search {
  std::vector<const Library *> usable;
  std::vector<std::string> refused; ///< "PATH: why"
};

/// Looks, once in a process for each value of M3C_NVRTC, there (a library or its folder; then
/// nowhere else), at the Python environments' wheels, at toolkits and at the system's library path.
/// Any number of threads may call this at once.
const Search &search();

/// The newest library that can build for `arch`. Throws Error naming `what` wants it, the versions
/// that were found and how to get one.
const Library &libraryFor(const std::string &arch, const std::string &what);

/// How to get a library, for messages.
std::string hint();

} // namespace m3c::nvrtc
