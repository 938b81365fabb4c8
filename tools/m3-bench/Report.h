// Result files of m3-bench: JSON, one schema for all commands.
#pragma once

#include "runtime/schedule/Engine.h"
#include "tools/m3-bench/Statistics.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace m3c::bench {

struct Report {
  std::string command;
  nlohmann::ordered_json machine = nlohmann::ordered_json::object();
  nlohmann::ordered_json limits = nlohmann::ordered_json::object();
  nlohmann::ordered_json extra = nlohmann::ordered_json::object(); ///< per-kernel tables
  std::vector<Metric> metrics;

  /// Notes the device and what it was measured to do at best.
  void setDevice(const hal::Device &device, const hal::DeviceLimits &limits);
  std::string json() const;
  /// Writes `json()` to `path`, to standard output for "-", nowhere for "".
  void write(const std::string &path) const;
  /// Throws Error for a file that is no report.
  static Report read(const std::string &path);
};

/// A table on standard error: name, median, range.
void printMetrics(const std::vector<Metric> &metrics);

} // namespace m3c::bench
