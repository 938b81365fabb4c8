// `m3c interpret CKPT`: scores sequences in double precision with the m3 reference interpreter.
#include "compiler/interpreter/Score.h"
#include "models/minimax_m3/GraphBuilder.h"
#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/base/OutputPlace.h"
#include "runtime/base/Progress.h"
#include "tools/common/Numbers.h"
#include "tools/common/Tell.h"
#include "tools/m3c/Commands.h"

#include "mlir/IR/MLIRContext.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace m3c {
namespace {

struct InterpretOptions {
  std::string folder, input, output, kv, grid;
  std::string progress = "auto";
  std::vector<std::string> trace, numerics;
  int64_t maxTokens = 32, chunk = 256;
  bool json = false;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

GraphOptions graphOptions(const InterpretOptions &options, const ImportedModel &model) {
  GraphOptions graph;
  graph.kv = options.kv.empty() ? defaultCacheStorage(model.config, model.weights)
                                : *m3::symbolizeCacheStorage(options.kv);
  graph.grid = options.grid.empty() ? defaultGrid(graph.kv) : *m3::symbolizeCacheGrid(options.grid);
  graph.activations = readNumerics(options.numerics).value_or(m3::Activations::F32);
  return graph;
}

void report(const InterpretOptions &options, const interpreter::ScoreCounts &counts,
            double seconds) {
  if (options.json) {
    nlohmann::ordered_json out = {{"output", options.output},
                                  {"texts", counts.texts},
                                  {"prompts", counts.prompts},
                                  {"seconds", seconds},
                                  {"peak_bytes", peakMemory()}};
    fmt::print("{}\n", out.dump(1));
  } else {
    tell("{} texts, {} prompts, {:.2f} s, peak memory {}\n", counts.texts, counts.prompts, seconds,
         byteText(peakMemory()));
  }
}

int runInterpret(const InterpretOptions &options) {
  auto begun = std::chrono::steady_clock::now();
  const std::filesystem::path inputs[] = {options.input, options.folder};
  requireOutputPlace(options.output, inputs);
  ImportedModel model = importModel(options.folder);
  for (const std::string &warning : model.findings.warnings)
    log::warning("{}", warning);
  if (!model.checkpoint->hasTensors())
    throw Error("the interpreter needs weights", model.folder, "the folder holds config.json alone",
                "name a checkpoint with tensors");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  GraphOptions graph = graphOptions(options, model);
  log::info("cache {} on the {} grid, activations {}", m3::stringifyCacheStorage(graph.kv).str(),
            m3::stringifyCacheGrid(graph.grid).str(),
            m3::stringifyActivations(graph.activations).str());
  mlir::OwningOpRef<mlir::ModuleOp> module =
      buildGraph(context, model.config, model.weights, graph);
  interpreter::CheckpointWeights weights(*model.checkpoint);
  interpreter::Scorer scorer(*module, model.config, weights, options.threads, options.chunk);
  interpreter::ScoreOptions score{options.maxTokens};
  for (const std::string &what : options.trace)
    (what == "blocks" ? score.traceBlocks : score.traceExperts) = true;
  Progress progress(*parseProgressMode(options.progress));
  bool staged = false;
  interpreter::ScoreCounts counts =
      interpreter::scoreFile(scorer, model.config, options.input, options.output, score,
                             [&](size_t done, size_t total, const std::string &item) {
                               if (!std::exchange(staged, true))
                                 progress.stage("interpreting", total);
                               progress.update(done, item);
                             });
  progress.finish();
  report(options, counts,
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  return 0;
}

} // namespace

std::function<int()> setUpInterpret(CLI::App &app) {
  auto options = std::make_shared<InterpretOptions>();
  app.add_option("CKPT", options->folder, "model folder (config.json, index, shards)")->required();
  app.add_option("--input", options->input, "safetensors file with ids.X and prompt.X")->required();
  app.add_option("--output", options->output, "safetensors file to write")->required();
  app.add_option("--max-tokens", options->maxTokens, "greedy tokens for each prompt.X")
      ->check(within(int64_t(0), int64_t(1) << 20));
  app.add_option("--kv", options->kv, "cache storage: f32, bf16, fp8 or nvfp4")
      ->check(oneOf({"f32", "bf16", "fp8", "nvfp4"}));
  app.add_option("--kv-grid", options->grid,
                 "nvfp4 keys and values enter products as e4m3 or exact")
      ->check(oneOf({"e4m3", "exact"}));
  app.add_option("--numerics", options->numerics,
                 "activations=f32 or activations=bf16: what passes between operations")
      ->delimiter(',');
  app.add_option("--trace", options->trace, "also write blocks, experts or both")
      ->delimiter(',')
      ->check(oneOf({"blocks", "experts"}));
  app.add_option("--chunk", options->chunk, "tokens of a prompt that run together")
      ->check(within(int64_t(1), int64_t(1) << 20));
  app.add_option("--threads", options->threads, "threads")
      ->check(within(int64_t(1), int64_t(1024)));
  app.add_flag("--json", options->json, "print what was done as JSON");
  app.add_option("--progress", options->progress, "auto, plain, json or none")
      ->check(oneOf({"auto", "plain", "json", "none"}));
  return [options] { return runInterpret(*options); };
}

} // namespace m3c
