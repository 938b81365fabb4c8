// The commands of m3c: one file and one row of the table each.
#pragma once

#include <functional>
#include <span>

#include <CLI/CLI.hpp>

namespace m3c {

/// Adds a command's options to its parser and returns what runs it; that gives the exit code or
/// throws Error.
using CommandSetup = std::function<int()> (*)(CLI::App &app);

struct Command {
  const char *name;
  const char *summary; ///< one line of --help
  CommandSetup setUp;
};

std::span<const Command> commandTable();

std::function<int()> setUpBuildKernel(CLI::App &app);
std::function<int()> setUpCapacity(CLI::App &app);
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
