// `m3c inspect PLAN`: what a plan file holds.
#include "compiler/report/PlanReport.h"
#include "tools/m3c/Commands.h"

#include <memory>

#include <fmt/format.h>

namespace m3c {

std::function<int()> setUpInspect(CLI::App &app) {
  struct Options {
    std::string plan;
    InspectDetail detail;
    bool manifest = false, json = false;
  };
  auto options = std::make_shared<Options>();
  app.add_option("PLAN", options->plan, "plan file")->required();
  app.add_flag("--sections", options->detail.sections, "list the sections of the file");
  app.add_flag("--weights", options->detail.weights, "list the weight buffers");
  app.add_flag("--launches", options->detail.launches, "list the launches of every bucket");
  app.add_flag("--manifest", options->manifest, "print the manifest alone, as JSON");
  app.add_flag("--json", options->json, "print JSON");
  return [options] {
    plan::PlanFile file = plan::PlanFile::open(options->plan);
    if (options->manifest) {
      fmt::print("{}\n", manifestOf(file).dump(1));
      return 0;
    }
    nlohmann::ordered_json inspected = inspectJson(file, options->detail);
    fmt::print("{}", options->json ? inspected.dump(1) + "\n" : inspectText(inspected));
    return 0;
  };
}

} // namespace m3c
