// `m3c explain PLAN`: why this kernel, format, schedule, demotion.
#include "compiler/report/PlanCost.h"
#include "compiler/report/PlanReport.h"
#include "tools/m3c/Commands.h"

#include <memory>

#include <fmt/format.h>

namespace m3c {

std::function<int()> setUpExplain(CLI::App &app) {
  struct Options {
    std::string plan, kernel, target, shape;
    bool json = false, cost = false;
  };
  auto options = std::make_shared<Options>();
  app.add_option("PLAN", options->plan, "plan file")->required();
  CLI::Option *kernel = app.add_option("--kernel", options->kernel, "one kernel or family by name");
  CLI::Option *cost = app.add_flag(
      "--cost", options->cost,
      "least bytes and operations of each launch, instructions, work items of a unit, the bound");
  cost->excludes(kernel);
  app.add_option("--target", options->target, "target or chip of --cost; default: the first")
      ->needs(cost);
  app.add_option(
         "--shape", options->shape,
         "step of --cost, sequences x rows @ tokens before it; default: one row for each row "
         "of the smallest bucket, after 8192 tokens")
      ->needs(cost);
  app.add_flag("--json", options->json, "print JSON");
  return [options] {
    if (options->cost) {
      plan::PlanFile file = plan::PlanFile::open(options->plan);
      StepShape shape =
          options->shape.empty() ? defaultCostShape(file) : parseShape(options->shape);
      nlohmann::ordered_json cost = costJson(file, options->target, shape);
      fmt::print("{}", options->json ? cost.dump(1) + "\n" : costText(cost));
      return 0;
    }
    nlohmann::ordered_json explained =
        explainJson(plan::PlanFile::open(options->plan), options->kernel);
    fmt::print("{}", options->json ? explained.dump(1) + "\n" : explainText(explained));
    return 0;
  };
}

} // namespace m3c
