// `m3c verify PLAN`: reads every byte of a plan and checks digests, structure and, on request, that
// a checkpoint is the one it was made from.
#include "compiler/import/Import.h"
#include "compiler/report/PlanReport.h"
#include "runtime/base/Error.h"
#include "tools/m3c/Commands.h"

#include <memory>

#include <fmt/format.h>

namespace m3c {
namespace {

struct VerifyOptions {
  std::string plan, checkpoint;
  bool json = false;
};

// The plan's record of the checkpoint against what the folder holds now.
void checkCheckpoint(const nlohmann::ordered_json &manifest, const std::string &folder) {
  CheckpointDigests digests = importModel(folder).digests;
  const auto &recorded = manifest["checkpoint"];
  auto check = [&](const char *key, const std::string &found) {
    std::string expected = recorded.value(key, "");
    if (expected != found)
      throw Error(fmt::format("{} is not the checkpoint that the plan was made from", folder), key,
                  fmt::format("expected digest {}, found {}", expected, found),
                  "compile this checkpoint, or name the one that was compiled");
  };
  check("config", digests.config);
  check("index", digests.index);
  check("all", digests.all());
}

int runVerify(const VerifyOptions &options) {
  plan::PlanFile file = plan::PlanFile::open(options.plan);
  file.verify();
  nlohmann::ordered_json manifest = manifestOf(file);
  if (!options.checkpoint.empty())
    checkCheckpoint(manifest, options.checkpoint);
  if (options.json) {
    nlohmann::ordered_json out = {{"plan", options.plan},
                                  {"ok", true},
                                  {"sections", file.sectionCount()},
                                  {"bytes", file.bytes().size()},
                                  {"checkpoint_checked", !options.checkpoint.empty()}};
    fmt::print("{}\n", out.dump(1));
  } else {
    fmt::print("{}: sound, {} sections, {} bytes{}\n", options.plan, file.sectionCount(),
               file.bytes().size(),
               options.checkpoint.empty() ? "" : ", made from " + options.checkpoint);
  }
  return 0;
}

} // namespace

std::function<int()> setUpVerify(CLI::App &app) {
  auto options = std::make_shared<VerifyOptions>();
  app.add_option("PLAN", options->plan, "plan file")->required();
  app.add_option("--checkpoint", options->checkpoint, "also check that the plan is of this folder");
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return runVerify(*options); };
}

} // namespace m3c
