// `m3-bench step`: prefill and decode speed of a plan.
#include "tools/m3-bench/Bench.h"
#include "tools/m3-bench/Commands.h"
#include "tools/m3-bench/Traffic.h"

#include <chrono>

#include <fmt/format.h>

namespace m3c::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct StepOptions {
  BenchOptions bench;
  std::vector<uint64_t> contexts = {128, 2048};
  uint32_t decode = 32;
};

double seconds(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

StepPlan oneRow() {
  StepPlan step;
  step.rows = step.logitRows = 1;
  return step;
}

/// Prefill of `context` tokens and decode after it, `repeat` times, after one run to warm up.
void measure(const Engine &engine, const StepOptions &options, uint64_t context,
             const hal::DeviceLimits &limits, Report &report) {
  std::vector<int32_t> tokens =
      madeUpTokens(context + options.decode, engine.tables().model()->vocab());
  std::unique_ptr<Session> session = benchSession(engine, options.bench, tokens.size());
  std::vector<double> prefill, decode;
  for (uint32_t run = 0; run <= options.bench.repeat; ++run) {
    SequenceId sequence = session->create();
    Append append = {sequence, std::span(tokens).first(context), Want::Last};
    Clock::time_point begun = Clock::now();
    session->run({&append, 1}, nullptr);
    double prefillTime = seconds(begun);
    begun = Clock::now();
    for (uint32_t i = 0; i < options.decode; ++i) {
      append.tokens = std::span(tokens).subspan(context + i, 1);
      session->run({&append, 1}, nullptr);
    }
    double decodeTime = seconds(begun);
    session->release(sequence);
    if (run == 0)
      continue;
    prefill.push_back(double(context) / prefillTime);
    decode.push_back(options.decode / decodeTime);
  }
  report.metrics.push_back(
      {fmt::format("prefill {}", context), "tokens/s", true, summarise(prefill)});
  report.metrics.push_back(
      {fmt::format("decode at {}", context), "tokens/s", true, summarise(decode)});
  Traffic traffic = trafficOfStep(engine.tables(), oneRow(), context + options.decode / 2);
  double rate = report.metrics.back().value.median;
  report.extra[fmt::format("decode at {}", context)] = {
      {"bytes_per_token", traffic.bytes},
      {"share_of_read_bandwidth", rate * traffic.bytes / limits.readBytesPerSecond}};
  fmt::print(stderr, "decode at {}: {:.1f} MB a token, {:.0f}% of the read bandwidth\n", context,
             traffic.bytes / 1e6, 100 * rate * traffic.bytes / limits.readBytesPerSecond);
}

int runStep(const StepOptions &options) {
  std::unique_ptr<Engine> engine = openBench(options.bench);
  hal::DeviceLimits limits = engine->device().measureLimits();
  Report report;
  report.command = "step";
  report.setDevice(engine->device(), limits);
  fmt::print(stderr, "{} threads, read bandwidth {:.1f} GB/s, FP32 {:.0f} GFLOP/s ({})\n",
             engine->device().info().workers, limits.readBytesPerSecond / 1e9,
             arithmeticLimit(limits, engine->target()) / 1e9, engine->target().chip()->str());
  for (uint64_t context : options.contexts)
    measure(*engine, options, context, limits, report);
  printMetrics(report.metrics);
  report.write(options.bench.json);
  return 0;
}

} // namespace

std::function<int()> setUpStep(CLI::App &app) {
  auto options = std::make_shared<StepOptions>();
  addBenchOptions(app, options->bench);
  app.add_option("--context", options->contexts, "Prompt lengths in tokens, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--decode", options->decode, "Tokens to decode after each prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return [options] { return runStep(*options); };
}

} // namespace m3c::bench
