#include "tools/m3-bench/LimitSamples.h"

#include "runtime/plan/List.h"
#include "tools/m3-bench/Statistics.h"

#include <fmt/format.h>

namespace m3c::bench {

LimitSamples::LimitSamples(unsigned threads, std::string given)
    : meter(threads), set(std::move(given)) {
  if (set.empty() && !hal::arithmeticSets().empty())
    set = hal::arithmeticSets().back();
}

void LimitSamples::sample() {
  const auto &levels = meter.levels();
  for (size_t i = levels.size() < 2 ? 0 : levels.size() - 2; i < levels.size(); ++i)
    reads[levels[i].name].push_back(meter.readBandwidth(levels[i]));
  if (!set.empty())
    peaks.push_back(meter.arithmeticPeak(set));
  clocks.push_back(meter.clock());
}

const hal::MemoryLevel &LimitSamples::holding(uint64_t workingSet) const {
  const auto &levels = meter.levels();
  const hal::MemoryLevel &memory = levels.back();
  if (levels.size() > 1 && workingSet <= levels[levels.size() - 2].bytes / 2)
    return levels[levels.size() - 2];
  return memory;
}

double LimitSamples::bandwidth(uint64_t workingSet) const {
  return median(reads.at(holding(workingSet).name));
}

const std::string &LimitSamples::level(uint64_t workingSet) const {
  return holding(workingSet).name;
}

double LimitSamples::peak() const { return median(peaks); }

double LimitSamples::leastSeconds(double bytes, double operations, uint64_t workingSet) const {
  double seconds = bytes / bandwidth(workingSet);
  return peaks.empty() ? seconds : std::max(seconds, operations / peak());
}

nlohmann::ordered_json LimitSamples::json() const {
  nlohmann::ordered_json out;
  out["threads"] = meter.workers();
  for (auto &[level, samples] : reads)
    out["read_bytes_per_second"][level] = {{"median", median(samples)}, {"samples", samples}};
  out["arithmetic"] = set;
  out["flops_per_second"] = {{"median", peak()}, {"samples", peaks}};
  out["clock_hertz"] = {{"median", median(clocks)}, {"samples", clocks}};
  return out;
}

std::string LimitSamples::text() const {
  std::string text = "read";
  for (auto &[level, samples] : reads)
    text += fmt::format(" {:.1f} GB/s ({}),", median(samples) / 1e9, level);
  text.back() = ';';
  return text + fmt::format(" {:.0f} GFLOP/s FP32 ({}); clock {:.2f} GHz; {} threads", peak() / 1e9,
                            set, median(clocks) / 1e9, meter.workers());
}

std::string arithmeticOf(const plan::Target &target) {
  std::string found;
  for (const std::string &set : hal::arithmeticSets())
    for (const auto *feature : plan::list(target.required_features()))
      if (feature->string_view().starts_with(set))
        found = set;
  return found;
}

} // namespace m3c::bench
