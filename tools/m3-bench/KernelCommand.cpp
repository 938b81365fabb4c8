// `m3-bench kernel`: time of every kind of kernel within real steps, with the share of its limit.
#include "runtime/plan/List.h"
#include "tools/m3-bench/Bench.h"
#include "tools/m3-bench/Commands.h"
#include "tools/m3-bench/Traffic.h"

#include <map>

#include <fmt/format.h>

namespace m3c::bench {
namespace {

struct KernelOptions {
  BenchOptions bench;
  std::vector<uint64_t> contexts = {2048};
  uint32_t rows = 1;
};

/// All launches of one kernel in a step.
struct KernelTime {
  std::string family;
  uint32_t launches = 0;
  std::vector<double> seconds; ///< of all launches together, one entry a step
  Traffic traffic;
};

std::map<std::string, KernelTime> measure(const Engine &engine, const KernelOptions &options,
                                          uint64_t context) {
  std::vector<int32_t> tokens = madeUpTokens(options.rows, engine.tables().model()->vocab());
  std::unique_ptr<Session> session = benchSession(engine, options.bench, context);
  std::map<std::string, KernelTime> times;
  bool warm = false;
  session->setStepTimes(
      [&](uint32_t bucket, std::span<const double> seconds, const StepPlan &step) {
        if (!warm)
          return;
        for (auto &[name, kernel] : times)
          kernel.launches = 0, kernel.traffic = {};
        std::map<std::string, double> sums;
        auto launches = plan::list(engine.tables().buckets()->Get(bucket)->launches());
        for (uint32_t i = 0; i < launches.size(); ++i) {
          const plan::Kernel &entry = *engine.tables().kernels()->Get(launches[i]->kernel());
          KernelTime &kernel = times[entry.name()->str()];
          kernel.family = entry.family() ? entry.family()->str() : "";
          kernel.launches++;
          Traffic one = trafficOf(engine.tables(), *launches[i], step, context);
          kernel.traffic.bytes += one.bytes;
          kernel.traffic.flops += one.flops;
          sums[entry.name()->str()] += seconds[i];
        }
        for (auto &[name, sum] : sums)
          times[name].seconds.push_back(sum);
      });
  for (uint32_t run = 0; run <= options.bench.repeat; ++run) {
    SequenceId sequence = session->create();
    session->extendMadeUp(sequence, context - options.rows);
    Append append = {sequence, tokens, Want::Last};
    warm = run > 0;
    session->run({&append, 1}, nullptr);
    session->release(sequence);
  }
  return times;
}

void show(const Engine &engine, const hal::DeviceLimits &limits, uint64_t context,
          const std::map<std::string, KernelTime> &times, Report &report) {
  fmt::print(stderr, "{} tokens of context\n{:<40} {:>8} {:>10} {:>9} {:>9} {:>7}\n", context,
             "kernel", "launches", "µs a step", "GB/s", "GFLOP/s", "limit");
  double all = 0;
  for (const auto &[name, kernel] : times) {
    Summary summary = summarise(kernel.seconds);
    double best = bestTime(kernel.traffic, limits, engine.target());
    all += summary.median;
    fmt::print(stderr, "{:<40} {:>8} {:>10.1f} {:>9.2f} {:>9.2f} {:>6.0f}%\n", name,
               kernel.launches, summary.median * 1e6, kernel.traffic.bytes / summary.median / 1e9,
               kernel.traffic.flops / summary.median / 1e9, 100 * best / summary.median);
    report.metrics.push_back({fmt::format("{} at {}", name, context), "s", false, summary});
    report.extra[fmt::format("{} at {}", name, context)] = {
        {"family", kernel.family},
        {"launches", kernel.launches},
        {"bytes", kernel.traffic.bytes},
        {"flops", kernel.traffic.flops},
        {"share_of_limit", best / summary.median}};
  }
  fmt::print(stderr, "{:<40} {:>8} {:>10.1f}\n", "all", "", all * 1e6);
}

int runKernel(const KernelOptions &options) {
  std::unique_ptr<Engine> engine = openBench(options.bench);
  hal::DeviceLimits limits = engine->device().measureLimits();
  Report report;
  report.command = "kernel";
  report.setDevice(engine->device(), limits);
  for (uint64_t context : options.contexts)
    show(*engine, limits, context,
         measure(*engine, options, std::max<uint64_t>(context, options.rows)), report);
  report.write(options.bench.json);
  return 0;
}

} // namespace

std::function<int()> setUpKernel(CLI::App &app) {
  auto options = std::make_shared<KernelOptions>();
  addBenchOptions(app, options->bench);
  app.add_option("--context", options->contexts,
                 "Lengths in tokens after the step, separated by commas; the cache before it is "
                 "made up")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--rows", options->rows, "Tokens in the step: 1 = decode")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return [options] { return runKernel(*options); };
}

} // namespace m3c::bench
