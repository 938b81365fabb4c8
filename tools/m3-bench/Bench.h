// What `step` and `kernel` share: a plan with weights on this machine.
#pragma once

#include "runtime/schedule/Session.h"
#include "tools/m3-bench/Report.h"

#include <CLI/CLI.hpp>

namespace m3c::bench {

struct BenchOptions {
  std::string plan, weights = "synthetic:1", json;
  unsigned threads = 0;
  uint32_t repeat = 5, chunk = 512;
};

void addBenchOptions(CLI::App &app, BenchOptions &options);

/// Engine with weights bound.
std::unique_ptr<Engine> openBench(const BenchOptions &options);

/// A session for one sequence of `tokens` tokens.
std::unique_ptr<Session> benchSession(const Engine &engine, const BenchOptions &options,
                                      uint64_t tokens);

/// Token ids without a pattern: equal for equal counts.
std::vector<int32_t> madeUpTokens(size_t count, uint32_t vocab);

} // namespace m3c::bench
