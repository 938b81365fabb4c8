// The whole of `m3c compile`: checkpoint folder in, plan file out.
#pragma once

#include "runtime/base/Progress.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace m3c {

struct CompileOptions {
  std::string checkpoint;           ///< model folder
  std::string output;               ///< plan file; may be empty for a dry run
  std::vector<std::string> targets; ///< by name; empty = the first that is built in
  std::vector<std::string> chips;   ///< of the targets; empty = all
  std::string shard;                ///< "tpN": one rank's part, for measuring; empty = the whole
  int64_t layers = 0;               ///< the first ones alone, likewise; 0 = all
  std::vector<int64_t> buckets;     ///< rows of the recorded graphs, ascending; empty = by the pass
  std::string cache;                ///< "f32", "bf16", "fp8", "nvfp4"; empty = the default rule
  std::string grid;                 ///< "e4m3", "exact"; empty = the default of the cache type
  std::string activations;          ///< "f32", "bf16"; empty = the target's default
  std::vector<std::string> schedule; ///< "family.choice=value"
  std::vector<std::string> disabledPasses, dumpAfter;
  std::string dumpFolder = "m3c-dump";
  bool keepSources = false, strict = false, dryRun = false;
  std::optional<std::string> cacheFolder; ///< empty text = no cache; nothing = the default folder
  unsigned threads = 0;                   ///< 0 = one per core
  ProgressMode progress = ProgressMode::Auto;
};

/// One row of `--timing`.
struct StageTime {
  std::string stage, item;
  double seconds;
};

/// What a plan will take, known before it is written; sizes in bytes.
struct PlanForecast {
  uint64_t weightBytes = 0, pageBytes = 0, arenaBytes = 0, arenaBytesPerBlock = 0;
  uint64_t pageTokens = 0;
  unsigned kernels = 0; ///< as `inspect` lists them
  unsigned objects = 0; ///< a kernel has one for each chip that runs it
  unsigned objectsToBuild = 0, launches = 0, buckets = 0;
  double buildSeconds = 0; ///< estimate
};

struct CompileResult {
  bool fromCache = false;
  uint64_t planBytes = 0;
  PlanForecast forecast; ///< not set when the plan came from the cache
  unsigned objectsBuilt = 0, objectsFromCache = 0;
  std::vector<std::string> warnings;
  std::string cacheRule; ///< the decision about the cache type, as a sentence
  std::vector<StageTime> times;
  double seconds = 0;
};

/// Throws Error for anything that stands in the way; the output file is then as it was before.
CompileResult compile(const CompileOptions &options);

/// Reads schedule choices: texts "family.choice=number", with commas between several, or paths of
/// JSON files {"family": {"choice": number}}. Throws Error for anything else.
std::vector<std::string> readSchedule(const std::vector<std::string> &arguments);

} // namespace m3c
