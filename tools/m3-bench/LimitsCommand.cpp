// `m3-bench limits`: read bandwidth of each level and FP32 peak, by number of threads; for another
// device than the host, what its driver measures.
#include "runtime/drivers/Drivers.h"
#include "runtime/drivers/host/Cpu.h"
#include "runtime/drivers/host/HostLimits.h"
#include "tools/common/Numbers.h"
#include "tools/m3-bench/LimitSamples.h"
#include "tools/m3-bench/Options.h"

#include <fmt/format.h>

namespace m3c::bench {
namespace {

struct Arguments {
  unsigned threads = 0; ///< most threads; 0 = all cores
  unsigned repeats = 7;
  std::string device = "host";
  OutputOptions output;
};

std::string line(const Result &result) {
  Summary summary = summarise(result.samples);
  return fmt::format("{:<28} {:>9.2f} {:<9} {:>5.1f} %\n", result.name, summary.median / 1e9,
                     result.unit == "bytes/s"  ? "GB/s"
                     : result.unit == "flop/s" ? "GFLOP/s"
                                               : "GHz",
                     100 * summary.spread());
}

std::vector<Result> measure(unsigned threads, unsigned repeats) {
  hal::LimitMeter meter(threads);
  std::vector<Result> results;
  std::string suffix = fmt::format(" {} thread{}", threads, threads > 1 ? "s" : "");
  for (const hal::MemoryLevel &level : meter.levels())
    results.push_back({"read " + level.name + suffix, "bytes/s", true, {}});
  for (const std::string &set : hal::arithmeticSets())
    results.push_back({"FP32 " + set + suffix, "flop/s", true, {}});
  results.push_back({"clock" + suffix, "hertz", true, {}});
  for (unsigned i = 0; i < repeats; ++i) { // all in turn: what disturbs, disturbs all alike
    size_t next = 0;
    for (const hal::MemoryLevel &level : meter.levels())
      results[next++].samples.push_back(meter.readBandwidth(level));
    for (const std::string &set : hal::arithmeticSets())
      results[next++].samples.push_back(meter.arithmeticPeak(set));
    results[next++].samples.push_back(meter.clock());
  }
  return results;
}

int runDeviceLimits(const Arguments &arguments) {
  hal::DeviceOptions options;
  options.device = arguments.device;
  std::unique_ptr<hal::Device> device = hal::openDevice(options);
  const hal::DeviceInfo &info = device->info();
  std::vector<Result> results = {{"read memory", "bytes/s", true, {}}};
  for (unsigned i = 0; i < arguments.repeats; ++i) {
    hal::DeviceLimits limits = device->measureLimits();
    results[0].samples.push_back(limits.readBytesPerSecond);
    for (size_t j = 0; j < limits.arithmetic.size(); ++j) {
      if (results.size() < j + 2)
        results.push_back({limits.arithmetic[j].feature, "flop/s", true, {}});
      results[j + 1].samples.push_back(limits.arithmetic[j].flopsPerSecond);
    }
  }
  nlohmann::ordered_json report = reportHead("limits");
  report["device"] = deviceJson(info);
  std::string text = fmt::format("device  {}\n\n{:<28} {:>9} {:<9} {:>7}\n", deviceText(info),
                                 "limit", "median", "", "spread");
  for (const Result &result : results) {
    text += line(result);
    report["results"].push_back(resultJson(result));
  }
  deliver(arguments.output, report, text);
  return 0;
}

int runLimits(const Arguments &arguments) {
  if (arguments.device != "host")
    return runDeviceLimits(arguments);
  unsigned most = unsigned(hal::usableCores().size());
  if (arguments.threads)
    most = std::min(most, arguments.threads);
  nlohmann::ordered_json report = reportHead("limits");
  std::string text = fmt::format("machine  {}\n\n{:<28} {:>9} {:<9} {:>7}\n", machineText(),
                                 "limit", "median", "", "spread");
  UsageClock usage;
  double threadSeconds = 0;
  for (unsigned threads = 1; threads <= most;
       threads = threads < most ? std::min(2 * threads, most) : most + 1) {
    UsageClock part;
    for (const Result &result : measure(threads, arguments.repeats)) {
      text += line(result);
      report["results"].push_back(resultJson(result));
    }
    threadSeconds += part.wallSeconds() * threads;
  }
  double share = usage.cpuSeconds() / threadSeconds;
  report["cpu_per_thread_second"] = share;
  text += fmt::format("\nspread: 90% less 10% quantile of {} samples, over the median; "
                      "processor time for each thread's second {:.2f} (setting up runs on one)\n",
                      arguments.repeats, share);
  deliver(arguments.output, report, text);
  return 0;
}

} // namespace

std::function<int()> setUpLimits(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("--threads", arguments->threads, "most threads; 0 = one for each core");
  app.add_option("--device", arguments->device, "host, cuda or cuda:N")->capture_default_str();
  app.add_option("--repeats", arguments->repeats, "samples of each limit")
      ->check(atLeastOne())
      ->capture_default_str();
  addOutputOptions(app, arguments->output);
  return [arguments] { return runLimits(*arguments); };
}

} // namespace m3c::bench
