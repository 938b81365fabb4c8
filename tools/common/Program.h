// A program of subcommands: parsing, help, messages and exit codes, the same for all of m3c's
// tools.
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

/// Parses the arguments and runs the chosen command. Exit codes: 0 done, 1 bad input or a failed
/// operation, 2 wrong usage. Results that did not reach standard output (a full disk) are a
/// failure.
int runProgram(const char *name, const char *description, std::span<const Command> commands,
               int argc, char **argv);

} // namespace m3c
