// The machine's limits, sampled between the runs that are held against them.
#pragma once

#include "runtime/drivers/host/HostLimits.h"
#include "runtime/plan/plan_generated.h"

#include <map>

#include <nlohmann/json.hpp>

namespace m3c::bench {

class LimitSamples {
public:
  /// `threads` as in DeviceOptions. `set` names the arithmetic whose peak counts; empty = the
  /// widest that there is.
  explicit LimitSamples(unsigned threads, std::string set = "");

  /// One sample of each: reads from the last cache and from memory, arithmetic peak, clock.
  void sample();

  /// Bytes a second (median so far) of the level that holds a working set: the last cache where it
  /// takes at most half of it, else memory.
  double bandwidth(uint64_t workingSet) const;
  const std::string &level(uint64_t workingSet) const;
  /// FP32 operations a second, median so far.
  double peak() const;
  /// The least seconds that these bytes and operations take: the larger of bytes / bandwidth and
  /// operations / peak.
  double leastSeconds(double bytes, double operations, uint64_t workingSet) const;

  nlohmann::ordered_json json() const;
  /// "read 31.2 GB/s (memory), 95.0 GB/s (L3); 201 GFLOP/s FP32 (SET); clock 3.1 GHz; 2 threads".
  std::string text() const;

private:
  const hal::MemoryLevel &holding(uint64_t workingSet) const;

  hal::LimitMeter meter;
  std::string set;
  std::map<std::string, std::vector<double>> reads; ///< by level, bytes a second
  std::vector<double> peaks, clocks;
};

/// The arithmetic that a plan's target uses: the widest set of this machine that one of the
/// target's required features belongs to.
std::string arithmeticOf(const plan::Target &target);

} // namespace m3c::bench
