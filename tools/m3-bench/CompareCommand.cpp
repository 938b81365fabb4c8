// `m3-bench compare`: two reports side by side.
#include "runtime/base/Error.h"
#include "tools/common/Numbers.h"
#include "tools/m3-bench/Options.h"

#include <algorithm>

#include <fmt/format.h>

namespace m3c::bench {
namespace {

struct Arguments {
  std::string before, after;
  double tolerance = 0.05;
  OutputOptions output;
};

/// How many times as fast `after` is.
struct Ratio {
  double value;
  Interval interval;
  const char *verdict() const {
    return interval.low > 1 ? "faster" : interval.high < 1 ? "slower" : "same";
  }
};

Ratio speedRatio(const Result &before, const Result &after) {
  const auto &above = before.higherIsBetter ? after.samples : before.samples;
  const auto &below = before.higherIsBetter ? before.samples : after.samples;
  double divisor = median(below);
  return {divisor > 0 ? median(above) / divisor : 0, ratioInterval(above, below)};
}

int runCompare(const Arguments &arguments) {
  std::vector<Result> before = readResults(arguments.before), after = readResults(arguments.after);
  nlohmann::ordered_json report = {{"tool", "m3-bench compare"},
                                   {"version", M3C_VERSION},
                                   {"before", arguments.before},
                                   {"after", arguments.after},
                                   {"results", nlohmann::ordered_json::array()}};
  std::string text = fmt::format("{:<28} {:>12} {:>12} {:>8}  {:<16}\n", "", "before", "after",
                                 "speed", "95% interval");
  bool worse = false;
  for (const Result &a : before) {
    auto b = std::find_if(after.begin(), after.end(), [&](const Result &other) {
      return other.name == a.name && other.unit == a.unit;
    });
    if (b == after.end() || a.samples.empty() || b->samples.empty()) {
      text += fmt::format("{:<28} only in {}\n", a.name, arguments.before);
      continue;
    }
    Ratio ratio = speedRatio(a, *b);
    worse |= ratio.interval.high < 1 && ratio.value < 1 - arguments.tolerance;
    text += fmt::format("{:<28} {:>12.4g} {:>12.4g} {:>7.3f}x  {:.3f} to {:.3f}   {}\n", a.name,
                        median(a.samples), median(b->samples), ratio.value, ratio.interval.low,
                        ratio.interval.high, ratio.verdict());
    report["results"].push_back({{"name", a.name},
                                 {"unit", a.unit},
                                 {"before", median(a.samples)},
                                 {"after", median(b->samples)},
                                 {"speed", ratio.value},
                                 {"low", ratio.interval.low},
                                 {"high", ratio.interval.high},
                                 {"verdict", ratio.verdict()}});
  }
  if (report["results"].empty())
    throw Error("the reports have no result in common",
                fmt::format("{} and {}", arguments.before, arguments.after));
  text +=
      "\nspeed: ratio of medians, above 1 where the second report is faster; interval: "
      "bootstrap of the medians\n(with fewer than 5 samples the widest ratio of two samples).\n";
  deliver(arguments.output, report, text);
  return worse ? 1 : 0;
}

} // namespace

std::function<int()> setUpCompare(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("before", arguments->before, "report of m3-bench")->required();
  app.add_option("after", arguments->after, "another, of the same command")->required();
  app.add_option("--tolerance", arguments->tolerance,
                 "exit code 1 when a result is slower by more than this share, beyond doubt")
      ->check(zeroOrMore())
      ->capture_default_str();
  addOutputOptions(app, arguments->output);
  return [arguments] { return runCompare(*arguments); };
}

} // namespace m3c::bench
