#include "tools/m3-bench/Report.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"

#include <fmt/format.h>

#include <cstdio>

namespace m3c::bench {

using nlohmann::ordered_json;

void Report::setDevice(const hal::Device &device, const hal::DeviceLimits &measured) {
  const hal::DeviceInfo &info = device.info();
  machine = {{"driver", info.driver},
             {"device", info.name},
             {"workers", info.workers},
             {"memory_bytes", info.memoryBytes}};
  limits["read_bytes_per_second"] = measured.readBytesPerSecond;
  for (const hal::DeviceLimits::Arithmetic &entry : measured.arithmetic)
    limits["fp32_flops_per_second"][entry.feature] = entry.flopsPerSecond;
}

std::string Report::json() const {
  ordered_json out = {{"m3_bench", 1}, {"command", command}, {"m3c", M3C_VERSION}};
  out["machine"] = machine;
  out["limits"] = limits;
  out["metrics"] = ordered_json::array();
  for (const Metric &metric : metrics)
    out["metrics"].push_back({{"name", metric.name},
                              {"unit", metric.unit},
                              {"larger_is_better", metric.larger},
                              {"median", metric.value.median},
                              {"p10", metric.value.low},
                              {"p90", metric.value.high},
                              {"samples", metric.value.samples}});
  if (!extra.empty())
    out["extra"] = extra;
  return out.dump(2) + "\n";
}

void Report::write(const std::string &path) const {
  if (path.empty())
    return;
  std::string text = json();
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout))
      throw Error("standard output cannot be written", "m3-bench");
    return;
  }
  FileWriter out(path);
  out.write(text);
  out.publish();
}

Report Report::read(const std::string &path) {
  MappedFile file = MappedFile::open(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  nlohmann::json in = parseJson(text, path);
  Report report;
  try {
    if (in.at("m3_bench") != 1)
      throw Error(fmt::format("{} is of another version", path), path);
    report.command = in.at("command");
    for (const nlohmann::json &entry : in.at("metrics"))
      report.metrics.push_back(
          {entry.at("name"),
           entry.at("unit"),
           entry.at("larger_is_better"),
           {entry.at("samples"), entry.at("median"), entry.at("p10"), entry.at("p90")}});
  } catch (const nlohmann::json::exception &error) {
    throw Error(fmt::format("{} is no result of m3-bench", path), path, error.what(),
                "give a file that `m3-bench … --json FILE` wrote");
  }
  return report;
}

void printMetrics(const std::vector<Metric> &metrics) {
  for (const Metric &metric : metrics)
    fmt::print(stderr, "{:<28} {:>12.4g} {:<10} ({:.4g} to {:.4g}, {} runs)\n", metric.name,
               metric.value.median, metric.unit, metric.value.low, metric.value.high,
               metric.value.samples);
}

} // namespace m3c::bench
