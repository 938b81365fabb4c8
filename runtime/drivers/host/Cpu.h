// What this machine's processor offers and which of its cores this process may use.
#pragma once

#include <string>
#include <vector>

namespace m3c::hal {

/// Feature names that code for this processor may require, sorted: "x86_64", "avx2", "fma",
/// "avx512f", … Only features whose registers the operating system saves are listed.
std::vector<std::string> cpuFeatures();

/// The processor's own name.
std::string cpuName();

/// Whether streams of memory are faster through the second-level cache than past it: on a Xeon,
/// decode of tests/data/m31-mid with two threads takes 16.3 instead of 27.7 ms a token; a Zen 5 is
/// faster past it (docs/benchmarks/cpu-tuning.md).
bool streamsThroughCaches();

/// One logical CPU of each physical core that this process may run on, ascending; the number is cut
/// to the processor time that a control group grants.
std::vector<int> usableCores();

} // namespace m3c::hal
