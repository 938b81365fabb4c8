// `m3c explain PLAN`: why this kernel, format, schedule, demotion.
#include "compiler/report/PlanReport.h"
#include "tools/m3c/Commands.h"

#include <memory>

#include <fmt/format.h>

namespace m3c {

std::function<int()> setUpExplain(CLI::App &app) {
  struct Options {
    std::string plan, kernel;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  app.add_option("PLAN", options->plan, "plan file")->required();
  app.add_option("--kernel", options->kernel, "one kernel or family by name");
  app.add_flag("--json", options->json, "print JSON");
  return [options] {
    nlohmann::ordered_json explained =
        explainJson(plan::PlanFile::open(options->plan), options->kernel);
    fmt::print("{}", options->json ? explained.dump(1) + "\n" : explainText(explained));
    return 0;
  };
}

} // namespace m3c
