// The device's limits, sampled between the runs that are held against them.
#pragma once

#include "runtime/hal/Hal.h"
#include "runtime/plan/plan_generated.h"

#include <memory>

#include <nlohmann/json.hpp>

namespace m3c::bench {

class LimitSamples {
public:
  virtual ~LimitSamples() = default;

  /// One sample of each limit.
  virtual void sample() = 0;

  /// Bytes a second (median so far) of the level that holds a working set: on the host the last
  /// cache where it takes at most half of it, else memory.
  virtual double bandwidth(uint64_t workingSet) const = 0;
  virtual std::string level(uint64_t workingSet) const = 0;
  /// Operations a second, median so far; 0 where none was measured.
  virtual double peak() const = 0;
  /// The least seconds that these bytes and operations take: the larger of bytes / bandwidth and
  /// operations / peak.
  double leastSeconds(double bytes, double operations, uint64_t workingSet) const;

  virtual nlohmann::ordered_json json() const = 0;
  /// "read 31.2 GB/s (memory), 95.0 GB/s (L3); 201 GFLOP/s FP32 (SET); clock 3.1 GHz; 2 threads".
  virtual std::string text() const = 0;
};

/// Limits of what a plan runs on. On the host: reads from the last cache and from memory, the FP32
/// peak of the instructions that `target` may use, the clock. On another device, what its driver
/// measures; of its arithmetic the last, which is the fastest, counts.
std::unique_ptr<LimitSamples> limitsOf(hal::Device &device, const plan::Target &target);

/// Name, memory, software and clock of a device, for a report.
nlohmann::ordered_json deviceJson(const hal::DeviceInfo &info);
/// "NVIDIA H200, 132 multiprocessors …": one line.
std::string deviceText(const hal::DeviceInfo &info);

} // namespace m3c::bench
