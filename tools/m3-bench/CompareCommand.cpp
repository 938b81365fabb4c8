// `m3-bench compare`: two results side by side.
#include "tools/m3-bench/Commands.h"
#include "tools/m3-bench/Report.h"

#include <algorithm>

#include <fmt/format.h>

namespace m3c::bench {
namespace {

int runCompare(const std::string &before, const std::string &after, double tolerance) {
  Report old = Report::read(before), fresh = Report::read(after);
  bool worse = false;
  fmt::print("{:<40} {:>12} {:>12} {:>8}\n", "metric", "before", "after", "better");
  for (const Metric &metric : old.metrics) {
    auto same = std::find_if(fresh.metrics.begin(), fresh.metrics.end(),
                             [&](const Metric &other) { return other.name == metric.name; });
    if (same == fresh.metrics.end()) {
      fmt::print("{:<40} {:>12.4g} {:>12}\n", metric.name, metric.value.median, "absent");
      continue;
    }
    Comparison comparison = compare(metric, *same);
    worse |= comparison.clear && comparison.ratio < 1 - tolerance;
    fmt::print("{:<40} {:>12.4g} {:>12.4g} {:>7.2f}x{}\n", metric.name, metric.value.median,
               same->value.median, comparison.ratio,
               comparison.clear ? "" : "  (within the spread)");
  }
  return worse ? 1 : 0;
}

} // namespace

std::function<int()> setUpCompare(CLI::App &app) {
  struct Arguments {
    std::string before, after;
    double tolerance = 0.05;
  };
  auto arguments = std::make_shared<Arguments>();
  app.add_option("before", arguments->before, "Result of m3-bench --json")->required();
  app.add_option("after", arguments->after, "Another one")->required();
  app.add_option("--tolerance", arguments->tolerance,
                 "Exit code 1 when a metric is clearly worse by more than this share")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  return
      [arguments] { return runCompare(arguments->before, arguments->after, arguments->tolerance); };
}

} // namespace m3c::bench
