// What every benchmark writes: the machine, and results with their samples.
#pragma once

#include "tools/m3-bench/Statistics.h"

#include <string>

#include <nlohmann/json.hpp>

namespace m3c::bench {

/// Processor, cores that this process may use, memory, system; for the head of a report.
nlohmann::ordered_json machineJson();
std::string machineText();

/// Time that passes and processor time that this process uses meanwhile.
class UsageClock {
public:
  UsageClock();
  double wallSeconds() const;
  double cpuSeconds() const;

private:
  double wall, cpu;
};

/// Repeated measurements of one thing.
struct Result {
  std::string name; ///< "decode@128": what `compare` matches
  std::string unit; ///< of the samples: "seconds" or "bytes/s" …
  bool higherIsBetter = false;
  std::vector<double> samples;
  nlohmann::ordered_json facts = nlohmann::ordered_json::object(); ///< whatever else belongs to it
};

/// Name, unit, direction, median, 10% and 90% quantiles, least sample, samples and facts.
nlohmann::ordered_json resultJson(const Result &result);

/// Reads the results of a report; throws Error naming the file for anything else.
std::vector<Result> readResults(const std::string &path);

/// Writes the report to a file, whole or not at all.
void writeReport(const std::string &path, const nlohmann::ordered_json &report);

} // namespace m3c::bench
