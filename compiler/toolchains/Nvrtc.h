// NVRTC, the vendor's run-time compiler, opened when it is first needed: several may be installed
// (wheels, toolkits, the system's), and the newest that can build for an architecture is taken.
#pragma once

#include "runtime/drivers/cuda/NvrtcApi.h"

namespace m3c::toolchains {

/// One library that was found and opened. Libraries stay open until the process ends.
struct Nvrtc {
  std::string path;
  int major = 0, minor = 0;
  std::vector<int> architectures; ///< 75, 80, 90, …
  hal::cuda::NvrtcApi call;

  std::string version() const; ///< "13.5"
  /// True when this library builds the smallest kernel for `arch`, e.g. "sm_90a".
  bool canBuild(const std::string &arch) const;
};

/// What a search came across: usable libraries, newest first, and what was wrong with the others.
struct NvrtcSearch {
  std::vector<const Nvrtc *> usable;
  std::vector<std::string> refused; ///< "PATH: why"
};

/// Looks, once in a process, at M3C_NVRTC (a library or its folder; then nowhere else), at the
/// Python environments' wheels, at toolkits and at the system's library path.
const NvrtcSearch &findNvrtc();

/// The newest library that can build for `arch`. Throws Error naming the versions that were found
/// and how to get one.
const Nvrtc &nvrtcFor(const std::string &arch);

/// How to get a library, for messages.
std::string nvrtcHint();

/// XXH3-128 of the library's file and of its built-in functions' file, as hexadecimal digits.
std::string nvrtcDigest(const Nvrtc &library);

} // namespace m3c::toolchains
