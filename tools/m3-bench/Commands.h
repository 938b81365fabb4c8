// The commands of m3-bench: one file each.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace m3c::bench {

std::function<int()> setUpLimits(CLI::App &app);
std::function<int()> setUpStep(CLI::App &app);
std::function<int()> setUpKernel(CLI::App &app);
std::function<int()> setUpCompare(CLI::App &app);

} // namespace m3c::bench
