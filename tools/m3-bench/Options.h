// What the commands of m3-bench share: options, and how a report leaves the program.
#pragma once

#include "tools/m3-bench/Report.h"

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace m3c::bench {

struct OutputOptions {
  bool json = false;
  std::string file;
};
void addOutputOptions(CLI::App &app, OutputOptions &options);

struct PlanOptions {
  std::string plan;
  std::string weights = "synthetic:1"; ///< or a checkpoint folder
  unsigned threads = 0;
  uint32_t chunk = 512;
  uint64_t seed = 1;       ///< of the token ids
  std::string device = ""; ///< as in hal::DeviceOptions
  std::string progress = "auto";
  OutputOptions output;
};
void addPlanOptions(CLI::App &app, PlanOptions &options);

/// {"tool", "version", "machine"}: the head of every report.
nlohmann::ordered_json reportHead(const std::string &command);

/// Prints the JSON or the text, and writes the file where one was asked for.
void deliver(const OutputOptions &options, const nlohmann::ordered_json &report,
             const std::string &text);

/// Each adds a command's options to its parser and returns what runs it.
std::function<int()> setUpLimits(CLI::App &app);
std::function<int()> setUpKernel(CLI::App &app);
std::function<int()> setUpStep(CLI::App &app);
std::function<int()> setUpCompare(CLI::App &app);

} // namespace m3c::bench
