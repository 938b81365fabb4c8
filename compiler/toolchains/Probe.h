// Which compilers this machine has, with versions and places.
#pragma once

#include <string>
#include <vector>

namespace m3c::toolchains {

struct ProbedTool {
  std::string name;
  bool found;
  bool required; ///< by a target that this version compiles for
  std::string detail;
};

/// Looks for every toolchain of the design. Never throws.
std::vector<ProbedTool> probeTools();

} // namespace m3c::toolchains
