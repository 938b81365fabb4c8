#include "tools/m3-bench/Options.h"

#include "runtime/base/Error.h"
#include "tools/common/Numbers.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace m3c::bench {

void addOutputOptions(CLI::App &app, OutputOptions &options) {
  app.add_flag("--json", options.json, "print the report as JSON");
  app.add_option("-o,--output", options.file, "write the report as JSON to a file");
}

void addPlanOptions(CLI::App &app, PlanOptions &options) {
  app.add_option("plan", options.plan, "plan file that `m3c compile` wrote")->required();
  app.add_option("--weights", options.weights,
                 "checkpoint folder that the plan was compiled from, or synthetic:SEED")
      ->capture_default_str();
  app.add_option("--device", options.device,
                 "host, cuda or cuda:N; the best for the plan when absent");
  app.add_option("--threads", options.threads, "worker threads; 0 = one for each core");
  app.add_option("--chunk", options.chunk, "most tokens in a step")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the token ids, which are random")
      ->capture_default_str();
  app.add_option("--progress", options.progress, "auto, plain, json or none")
      ->check(oneOf({"auto", "plain", "json", "none"}))
      ->capture_default_str();
  addOutputOptions(app, options.output);
}

nlohmann::ordered_json reportHead(const std::string &command) {
  nlohmann::ordered_json out;
  out["tool"] = "m3-bench " + command;
  out["version"] = M3C_VERSION;
  out["machine"] = machineJson();
  return out;
}

void deliver(const OutputOptions &options, const nlohmann::ordered_json &report,
             const std::string &text) {
  if (!options.file.empty())
    writeReport(options.file, report);
  std::string shown = options.json ? report.dump(1) + "\n" : text;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size() ||
      std::fflush(stdout) != 0)
    throw Error("standard output cannot be written", "m3-bench", std::strerror(errno));
}

} // namespace m3c::bench
