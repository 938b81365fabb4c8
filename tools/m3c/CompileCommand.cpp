// `m3c compile CKPT -o PLAN`: a checkpoint into a plan.
#include "compiler/driver/Compile.h"
#include "models/minimax_m3/GraphBuilder.h"
#include "runtime/base/Error.h"
#include "runtime/base/OutputPlace.h"
#include "tools/common/Numbers.h"
#include "tools/common/Tell.h"
#include "tools/m3c/Commands.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>

namespace m3c {
namespace {

struct CompileArguments {
  CompileOptions options;
  std::vector<std::string> schedule, numerics;
  std::string progress = "auto", timing, cacheFolder;
  bool noCache = false, json = false;
};

nlohmann::ordered_json forecastJson(const PlanForecast &forecast) {
  return {{"weight_bytes", forecast.weightBytes},
          {"cache_page_bytes", forecast.pageBytes},
          {"cache_page_tokens", forecast.pageTokens},
          {"arena_bytes", forecast.arenaBytes},
          {"arena_bytes_per_block", forecast.arenaBytesPerBlock},
          {"buckets", forecast.buckets},
          {"launches", forecast.launches},
          {"kernels", forecast.kernels},
          {"code_objects", forecast.objects},
          {"code_objects_to_build", forecast.objectsToBuild},
          {"build_seconds_estimate", forecast.buildSeconds}};
}

nlohmann::ordered_json resultJson(const CompileOptions &options, const CompileResult &result) {
  nlohmann::ordered_json out = {{"plan", options.output},
                                {"dry_run", options.dryRun},
                                {"from_cache", result.fromCache},
                                {"bytes", result.planBytes},
                                {"cache_rule", result.cacheRule},
                                {"code_objects_built", result.objectsBuilt},
                                {"code_objects_from_cache", result.objectsFromCache},
                                {"seconds", result.seconds},
                                {"peak_bytes", peakMemory()},
                                {"warnings", result.warnings}};
  if (!result.fromCache)
    out["forecast"] = forecastJson(result.forecast);
  out["times"] = nlohmann::ordered_json::array();
  for (const StageTime &time : result.times)
    out["times"].push_back({{"stage", time.stage}, {"item", time.item}, {"seconds", time.seconds}});
  return out;
}

void printForecast(const PlanForecast &forecast) {
  fmt::print(
      "memory   weights {}, arena {} + {} a block of context, cache {} a page of {} tokens\n",
      byteText(forecast.weightBytes), byteText(forecast.arenaBytes),
      byteText(forecast.arenaBytesPerBlock), byteText(forecast.pageBytes), forecast.pageTokens);
  fmt::print(
      "kernels  {} as {} code objects, one for each chip that runs it, {} of them to be built; "
      "{} launches in {} buckets\n",
      forecast.kernels, forecast.objects, forecast.objectsToBuild, forecast.launches,
      forecast.buckets);
  fmt::print("time     about {:.0f} s to build them; nothing is downloaded\n",
             forecast.buildSeconds);
}

void printTimes(const CompileResult &result) {
  double sum = 0;
  for (const StageTime &time : result.times) {
    sum += time.seconds;
    tell("{:>9.3f} s  {:<20} {}\n", time.seconds, time.stage, time.item);
  }
  tell("{:>9.3f} s  {:<20}\n{:>9.3f} s  all\n", result.seconds - sum, "between stages",
       result.seconds);
}

/// Known before any work: the output can be written, and is nothing that is read.
void checkPlaces(const CompileOptions &options, const std::vector<std::string> &schedule) {
  std::vector<std::filesystem::path> inputs = {options.checkpoint};
  for (const std::string &argument : schedule)
    if (argument.find('=') == std::string::npos)
      inputs.push_back(argument); // a file
  if (!options.dryRun)
    requireOutputPlace(options.output, inputs);
  if (!options.dumpAfter.empty())
    requireApart(options.dumpFolder, inputs);
}

int runCompile(const CompileArguments &arguments) {
  CompileOptions options = arguments.options;
  options.progress = *parseProgressMode(arguments.progress);
  options.schedule = readSchedule(arguments.schedule);
  if (auto activations = readNumerics(arguments.numerics))
    options.activations = m3::stringifyActivations(*activations).str();
  if (arguments.noCache)
    options.cacheFolder = "";
  else if (!arguments.cacheFolder.empty())
    options.cacheFolder = arguments.cacheFolder;
  if (options.output.empty() && !options.dryRun)
    throw Error("no output file", "m3c compile", "", "give -o PLAN", ExitCode::Usage);
  checkPlaces(options, arguments.schedule);
  CompileResult result = compile(options);
  if (arguments.json) {
    fmt::print("{}\n", resultJson(options, result).dump(1));
    return 0;
  }
  fmt::print("{}\n", result.cacheRule);
  if (options.dryRun)
    printForecast(result.forecast);
  else
    fmt::print("{}: {}, {} in {:.1f} s\n", options.output, byteText(result.planBytes),
               result.fromCache
                   ? "from the cache"
                   : fmt::format("{} kernels, {} code objects built, {} from the cache",
                                 result.forecast.kernels, result.objectsBuilt,
                                 result.objectsFromCache),
               result.seconds);
  if (!arguments.timing.empty())
    printTimes(result);
  return 0;
}

void addPassOptions(CLI::App &app, CompileArguments &arguments) {
  CompileOptions &options = arguments.options;
  app.add_option("--schedule", arguments.schedule,
                 "family.choice=number,…, or a JSON file {family: {choice: number}}");
  app.add_option("--disable-pass", options.disabledPasses, "leave a pass out, by name");
  app.add_option("--dump-after", options.dumpAfter, "write the IR after this pass, or all")
      ->delimiter(',');
  app.add_option("--dump-dir", options.dumpFolder, "folder for --dump-after")
      ->capture_default_str();
  app.add_flag("--keep-sources", options.keepSources, "keep the text of every kernel in the plan");
}

} // namespace

std::function<int()> setUpCompile(CLI::App &app) {
  auto arguments = std::make_shared<CompileArguments>();
  CompileOptions &options = arguments->options;
  app.add_option("CKPT", options.checkpoint, "model folder, or one with config.json alone")
      ->required();
  app.add_option("-o,--output", options.output, "plan file to write");
  app.add_option("--target", options.targets,
                 "what to compile for, one or more; `m3c targets` lists them")
      ->delimiter(',');
  app.add_option("--chip", options.chips, "chips of the targets; all when absent")->delimiter(',');
  app.add_option(
      "--kv", options.cache,
      "cache of attention and index: f32, bf16, fp8, nvfp4; by a printed rule when absent");
  app.add_option("--kv-grid", options.grid,
                 "arithmetic of an nvfp4 cache: e4m3 (default) or exact");
  app.add_option("--numerics", arguments->numerics,
                 "activations=f32 or activations=bf16: what one kernel hands to the next; the "
                 "target's default when absent")
      ->delimiter(',');
  app.add_option("--shard", options.shard,
                 "one rank's part, as tp4, of a folder with config.json alone: for measuring");
  app.add_option("--layers", options.layers, "the first layers alone, likewise; 0 = all")
      ->check(within(int64_t(0), int64_t(1000)));
  app.add_option("--buckets", options.buckets,
                 "most rows of each recorded graph, ascending; powers of two up to 512 when absent")
      ->delimiter(',');
  addPassOptions(app, *arguments);
  app.add_flag("--strict", options.strict, "refuse unknown keys and tensors");
  app.add_flag("--dry-run", options.dryRun, "say what would be built: memory, kernels, time");
  app.add_option("--threads", options.threads, "threads that compile; 0 = one per core")
      ->check(within(int64_t(0), int64_t(1024)));
  app.add_option("--cache-dir", arguments->cacheFolder,
                 "folder of finished kernels and plans; $XDG_CACHE_HOME/m3c or ~/.cache/m3c");
  app.add_flag("--no-cache", arguments->noCache, "neither read nor write the cache");
  app.add_flag("--timing{text}", arguments->timing, "print the time of every stage");
  app.add_flag("--json", arguments->json, "print the result as JSON, times included");
  app.add_option("--progress", arguments->progress, "auto, plain, json or none")
      ->check(oneOf({"auto", "plain", "json", "none"}));
  return [arguments] { return runCompile(*arguments); };
}

} // namespace m3c
