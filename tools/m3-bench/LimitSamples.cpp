#include "tools/m3-bench/LimitSamples.h"

#include "runtime/drivers/host/HostLimits.h"
#include "runtime/plan/List.h"
#include "tools/m3-bench/Statistics.h"

#include <map>

#include <fmt/format.h>

namespace m3c::bench {

namespace {

nlohmann::ordered_json samplesJson(const std::vector<double> &samples) {
  return {{"median", median(samples)}, {"samples", samples}};
}

/// The widest set of this machine that one of the target's required features belongs to.
std::string arithmeticOf(const plan::Target &target) {
  std::string found;
  for (const std::string &set : hal::arithmeticSets())
    for (const auto *feature : plan::list(target.required_features()))
      if (feature->string_view().starts_with(set))
        found = set;
  return found;
}

class HostLimitSamples final : public LimitSamples {
public:
  HostLimitSamples(unsigned threads, std::string given) : meter(threads), set(std::move(given)) {
    if (set.empty() && !hal::arithmeticSets().empty())
      set = hal::arithmeticSets().back();
  }

  void sample() override {
    const auto &levels = meter.levels();
    for (size_t i = levels.size() < 2 ? 0 : levels.size() - 2; i < levels.size(); ++i)
      reads[levels[i].name].push_back(meter.readBandwidth(levels[i]));
    if (!set.empty())
      peaks.push_back(meter.arithmeticPeak(set));
    clocks.push_back(meter.clock());
  }

  double bandwidth(uint64_t workingSet) const override {
    return median(reads.at(holding(workingSet).name));
  }
  std::string level(uint64_t workingSet) const override { return holding(workingSet).name; }
  double peak() const override { return peaks.empty() ? 0 : median(peaks); }

  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json out;
    out["threads"] = meter.workers();
    for (auto &[level, samples] : reads)
      out["read_bytes_per_second"][level] = samplesJson(samples);
    out["arithmetic"] = set;
    out["flops_per_second"] = {{"median", peak()}, {"samples", peaks}};
    out["clock_hertz"] = samplesJson(clocks);
    return out;
  }

  std::string text() const override {
    std::string text = "read";
    for (auto &[level, samples] : reads)
      text += fmt::format(" {:.1f} GB/s ({}),", median(samples) / 1e9, level);
    text.back() = ';';
    return text + fmt::format(" {:.0f} GFLOP/s FP32 ({}); clock {:.2f} GHz; {} threads",
                              peak() / 1e9, set, median(clocks) / 1e9, meter.workers());
  }

private:
  const hal::MemoryLevel &holding(uint64_t workingSet) const {
    const auto &levels = meter.levels();
    const hal::MemoryLevel &memory = levels.back();
    if (levels.size() > 1 && workingSet <= levels[levels.size() - 2].bytes / 2)
      return levels[levels.size() - 2];
    return memory;
  }

  hal::LimitMeter meter;
  std::string set;
  std::map<std::string, std::vector<double>> reads; ///< by level, bytes a second
  std::vector<double> peaks, clocks;
};

class DeviceLimitSamples final : public LimitSamples {
public:
  explicit DeviceLimitSamples(hal::Device &device) : device(device) {}

  void sample() override {
    hal::DeviceLimits limits = device.measureLimits();
    reads.push_back(limits.readBytesPerSecond);
    arithmetic.resize(limits.arithmetic.size());
    for (size_t i = 0; i < limits.arithmetic.size(); ++i) {
      arithmetic[i].first = limits.arithmetic[i].feature;
      arithmetic[i].second.push_back(limits.arithmetic[i].flopsPerSecond);
    }
  }

  double bandwidth(uint64_t) const override { return median(reads); }
  std::string level(uint64_t) const override { return "memory"; }
  double peak() const override { return arithmetic.empty() ? 0 : median(arithmetic.back().second); }

  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json out;
    out["read_bytes_per_second"]["memory"] = samplesJson(reads);
    if (!arithmetic.empty()) {
      out["arithmetic"] = arithmetic.back().first;
      out["flops_per_second"] = samplesJson(arithmetic.back().second);
    }
    for (const auto &[feature, samples] : arithmetic)
      out["all_flops_per_second"][feature] = samplesJson(samples);
    return out;
  }

  std::string text() const override {
    std::string text = fmt::format("read {:.1f} GB/s (memory)", median(reads) / 1e9);
    for (const auto &[feature, samples] : arithmetic)
      text += fmt::format("; {:.0f} GFLOP/s ({})", median(samples) / 1e9, feature);
    return text;
  }

private:
  hal::Device &device;
  std::vector<double> reads;
  std::vector<std::pair<std::string, std::vector<double>>> arithmetic;
};

} // namespace

double LimitSamples::leastSeconds(double bytes, double operations, uint64_t workingSet) const {
  double seconds = bytes / bandwidth(workingSet);
  return peak() > 0 ? std::max(seconds, operations / peak()) : seconds;
}

std::unique_ptr<LimitSamples> limitsOf(hal::Device &device, const plan::Target &target) {
  if (device.info().driver == "host")
    return std::make_unique<HostLimitSamples>(device.info().workers, arithmeticOf(target));
  return std::make_unique<DeviceLimitSamples>(device);
}

nlohmann::ordered_json deviceJson(const hal::DeviceInfo &info) {
  nlohmann::ordered_json out = {{"driver", info.driver},     {"name", info.name},
                                {"workers", info.workers},   {"memory_bytes", info.memoryBytes},
                                {"software", info.software}, {"features", info.features}};
  if (info.cacheBytes)
    out["cache_bytes"] = info.cacheBytes;
  if (info.clockHertz)
    out["highest_clock_hertz"] = info.clockHertz;
  return out;
}

std::string deviceText(const hal::DeviceInfo &info) {
  return fmt::format("{}, {} workers{}{}{}", info.name, info.workers,
                     info.software.empty() ? "" : ", ", info.software,
                     info.clockHertz
                         ? fmt::format(", clock up to {:.3f} GHz", double(info.clockHertz) / 1e9)
                         : "");
}

} // namespace m3c::bench
