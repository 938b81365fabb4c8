// A program of the toolchain that exists only as a program, run without a shell.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace m3c::toolchains {

struct Finished {
  int status = 0; ///< exit status; 128 + N when signal N ended it
  std::string output, errors;
};

/// What a program sees as the name of the bytes in `input`.
constexpr const char *inputFile = "/proc/self/fd/3";

/// Runs `program` (a path) and waits for its end. `input` lies in memory and is readable as
/// `inputFile`; standard input is empty. Throws Error when the program cannot be started.
Finished runProgram(const std::string &program, const std::vector<std::string> &arguments,
                    std::span<const std::byte> input = {});

} // namespace m3c::toolchains
