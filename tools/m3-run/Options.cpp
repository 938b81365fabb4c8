#include "tools/m3-run/Options.h"

#include "tools/common/ReadWeights.h"

#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "tools/common/Numbers.h"

namespace m3c {

void checkDeviceChoice(const std::string &device, const std::string &emulate) {
  if (!device.empty() && !emulate.empty())
    throw Error("--device has no effect with --emulate", "--device",
                "an emulated target runs on the CPU", "leave one of the two out", ExitCode::Usage);
}

void addRunOptions(CLI::App &app, RunOptions &options) {
  app.add_option("plan", options.plan, "plan file that `m3c compile` wrote")->required();
  app.add_option("--weights", options.weights,
                 "checkpoint folder that the plan was compiled from, or synthetic:SEED")
      ->required();
  app.add_option("--device", options.device,
                 "host, cuda or cuda:N; default: the best that the plan has code for");
  app.add_flag("--check-launches", options.checkLaunches,
               "wait for each launch, so that a failure names it; slow");
  app.add_option("--emulate", options.emulate,
                 "target whose kernels are emulated on the CPU and checked; slow");
  app.add_option("--emulate-seed", options.emulationSeed,
                 "seed of the order in which emulated threads run")
      ->capture_default_str();
  app.add_flag("--no-graphs", options.noGraphs,
               "start each launch by itself instead of recording steps; slower");
  app.add_option("--threads", options.threads, "worker threads; 0 = one for each core");
  app.add_option("--kv-pages", options.pages,
                 "pages of the KV cache, 128 tokens each; 0 = what the run needs")
      ->check(within(int64_t(0), int64_t(INT32_MAX))); // page ids
  app.add_option("--chunk", options.chunk, "most tokens of one sequence in a step")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_flag("--stats", options.stats, "print the launches of each kernel and chip at the end");
  app.add_option("--progress", options.progress, "auto, plain, json or none")
      ->check(oneOf({"auto", "plain", "json", "none"}))
      ->capture_default_str();
}

std::unique_ptr<Engine> openEngine(const RunOptions &options) {
  checkDeviceChoice(options.device, options.emulate);
  auto engine = std::make_unique<Engine>(plan::PlanFile::open(options.plan),
                                         hal::DeviceOptions{options.threads, true, options.device,
                                                            options.checkLaunches, options.emulate,
                                                            options.emulationSeed});
  if (engine->tables().targets()->size() > 1 || !options.device.empty())
    log::info("running the code for {} on {}", engine->target().chip()->str(),
              engine->device().info().name);
  return engine;
}

void applyTo(SessionOptions &session, const RunOptions &options) {
  session.chunk = options.chunk;
  session.record = !options.noGraphs;
}

void mentionGraphs(Session &session) {
  constexpr double noticeable = 0.25; // seconds
  session.setRecorded([](uint32_t rows, uint32_t blocks, size_t nodes, double seconds) {
    if (seconds > noticeable)
      log::info("recorded a graph of {} nodes for {} rows and {} blocks in {:.1f} s", nodes, rows,
                blocks, seconds);
  });
}

bool isSynthetic(const std::string &weights) { return weights.starts_with("synthetic:"); }

void loadWeights(Engine &engine, const RunOptions &options, const SessionOptions &session) {
  Session::checkMemory(engine, session);
  readWeights(engine, options.weights, options.progress);
}

} // namespace m3c
