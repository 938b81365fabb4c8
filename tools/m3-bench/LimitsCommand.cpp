// `m3-bench limits`: what this machine can do at best.
#include "runtime/drivers/Drivers.h"
#include "tools/m3-bench/Commands.h"
#include "tools/m3-bench/Report.h"

#include <fmt/format.h>

namespace m3c::bench {
namespace {

int runLimits(unsigned threads, const std::string &json) {
  for (const std::unique_ptr<hal::Driver> &driver : hal::allDrivers())
    for (size_t i = 0; i < driver->devices().size(); ++i) {
      std::unique_ptr<hal::Device> device = driver->open(i, {threads, true});
      hal::DeviceLimits limits = device->measureLimits();
      Report report;
      report.command = "limits";
      report.setDevice(*device, limits);
      fmt::print(stderr, "{} ({} workers): read {:.1f} GB/s", device->info().name,
                 device->info().workers, limits.readBytesPerSecond / 1e9);
      for (const hal::DeviceLimits::Arithmetic &entry : limits.arithmetic)
        fmt::print(stderr, ", {} {:.0f} GFLOP/s", entry.feature, entry.flopsPerSecond / 1e9);
      fmt::print(stderr, "\n");
      report.write(json);
    }
  return 0;
}

} // namespace

std::function<int()> setUpLimits(CLI::App &app) {
  auto threads = std::make_shared<unsigned>(0);
  auto json = std::make_shared<std::string>();
  app.add_option("--threads", *threads, "Worker threads; 0 = one for each core");
  app.add_option("--json", *json, "Write the result there; - = standard output");
  return [threads, json] { return runLimits(*threads, *json); };
}

} // namespace m3c::bench
