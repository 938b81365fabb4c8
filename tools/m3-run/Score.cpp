// `m3-run score`: log-probabilities, choices and greedy continuations of given token ids.
#include "runtime/base/Error.h"
#include "runtime/base/OutputPlace.h"
#include "runtime/score/Scorer.h"
#include "tools/common/Numbers.h"
#include "tools/common/Tell.h"
#include "tools/m3-run/Options.h"

#include <chrono>
#include <filesystem>

#include <fmt/format.h>

namespace m3c {
namespace {

struct Arguments {
  RunOptions run;
  ScoreOptions score;
  std::string input, output;
  std::vector<std::string> trace;
};

int runScore(Arguments arguments) {
  ScoreOptions &options = arguments.score;
  options.chunk = arguments.run.chunk;
  std::vector<std::filesystem::path> inputs = {arguments.run.plan, arguments.input};
  if (!isSynthetic(arguments.run.weights))
    inputs.push_back(arguments.run.weights);
  requireOutputPlace(arguments.output, inputs);
  for (const std::string &what : arguments.trace)
    (what == "blocks" ? options.traceBlocks : options.traceExperts) = true;

  std::unique_ptr<Engine> engine = openEngine(arguments.run);
  ScoreInput input = ScoreInput::read(arguments.input, engine->tables().model()->vocab());
  SessionOptions session = scoreSession(*engine, input, options);
  applyTo(session, arguments.run);
  uint64_t needed = session.pages;
  if (arguments.run.pages)
    session.pages = arguments.run.pages;
  checkLengths(*engine, input, options, session);
  if (session.pages < needed)
    throw Error(fmt::format("{} pages of the cache are too few", session.pages), "--kv-pages",
                fmt::format("texts and prompts in batches of {} need {}", options.batch, needed),
                "raise --kv-pages or lower --batch");
  loadWeights(*engine, arguments.run, session);
  Session sequences(*engine, session);
  mentionGraphs(sequences);

  auto begun = std::chrono::steady_clock::now();
  Progress progress(*parseProgressMode(arguments.run.progress));
  progress.stage("scoring", scoreTokens(input, options));
  SafetensorsWriter out = score(*engine, sequences, input, options,
                                [&](uint64_t done, uint64_t) { progress.update(done); });
  progress.finish();
  out.write(arguments.output);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  tell("{} texts, {} prompts, {} steps, {:.2f} s, peak memory {}\n", input.texts.size(),
       input.prompts.size(), sequences.stepsRun(), seconds, byteText(peakMemory()));
  reportRun(*engine, sequences, arguments.run.stats);
  return 0;
}

} // namespace

std::function<int()> setUpScore(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  addRunOptions(app, arguments->run);
  app.add_option("--input", arguments->input, "safetensors file with ids.X and prompt.N")
      ->required();
  app.add_option("--output", arguments->output, "safetensors file to write")->required();
  app.add_option("--batch", arguments->score.batch, "texts that run together")
      ->check(within(int64_t(1), int64_t(65536)))
      ->capture_default_str();
  app.add_option("--max-tokens", arguments->score.maxTokens, "tokens generated for each prompt")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--trace", arguments->trace, "record choices: blocks,experts")
      ->delimiter(',')
      ->check(oneOf({"blocks", "experts"}));
  return [arguments] { return runScore(*arguments); };
}

} // namespace m3c
