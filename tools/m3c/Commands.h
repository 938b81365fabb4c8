// The commands of m3c: one file and one row of the table each.
#pragma once

#include "tools/common/Program.h"

namespace m3c {

std::span<const Command> commandTable();

std::function<int()> setUpBuildKernel(CLI::App &app);
std::function<int()> setUpCapacity(CLI::App &app);
std::function<int()> setUpCapsule(CLI::App &app);
std::function<int()> setUpCheck(CLI::App &app);
std::function<int()> setUpCompile(CLI::App &app);
std::function<int()> setUpDiff(CLI::App &app);
std::function<int()> setUpDoctor(CLI::App &app);
std::function<int()> setUpExplain(CLI::App &app);
std::function<int()> setUpExtract(CLI::App &app);
std::function<int()> setUpInspect(CLI::App &app);
std::function<int()> setUpTargets(CLI::App &app);
std::function<int()> setUpVerify(CLI::App &app);
std::function<int()> setUpInterpret(CLI::App &app);

} // namespace m3c
