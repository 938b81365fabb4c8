#include "tools/m3-bench/Bench.h"

#include "runtime/base/Progress.h"

#include <utility>

namespace m3c::bench {

void addBenchOptions(CLI::App &app, BenchOptions &options) {
  app.add_option("plan", options.plan, "Plan file")->required();
  app.add_option("--weights", options.weights, "Checkpoint folder or synthetic:SEED")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Worker threads; 0 = one for each core");
  app.add_option("--repeat", options.repeat, "Measurements of each kind")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--chunk", options.chunk, "Most tokens in a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--json", options.json, "Write the result there; - = standard output");
}

std::unique_ptr<Engine> openBench(const BenchOptions &options) {
  auto engine = std::make_unique<Engine>(plan::PlanFile::open(options.plan),
                                         hal::DeviceOptions{options.threads, true});
  Progress progress;
  bool begun = false;
  engine->bindWeights(*openWeights(options.weights, engine->tables()),
                      [&](uint64_t done, uint64_t total, std::string_view tensor) {
                        if (!std::exchange(begun, true))
                          progress.stage("weights", total);
                        progress.update(done, tensor);
                      });
  return engine;
}

std::unique_ptr<Session> benchSession(const Engine &engine, const BenchOptions &options,
                                      uint64_t tokens) {
  uint64_t page = engine.tables().cache()->page_tokens();
  SessionOptions session;
  session.pages = (tokens + page - 1) / page;
  session.chunk = options.chunk;
  Session::checkMemory(engine, session);
  return std::make_unique<Session>(engine, session);
}

std::vector<int32_t> madeUpTokens(size_t count, uint32_t vocab) {
  std::vector<int32_t> tokens;
  uint32_t state = 12345;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(int32_t(((state = state * 1664525 + 1013904223) >> 8) % vocab));
  return tokens;
}

} // namespace m3c::bench
