// `m3c diff A B`: what differs between two plans. Exit code 0 when nothing does, 1 otherwise.
#include "compiler/report/PlanReport.h"
#include "tools/m3c/Commands.h"

#include <memory>

#include <fmt/format.h>

namespace m3c {

std::function<int()> setUpDiff(CLI::App &app) {
  struct Options {
    std::string left, right;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  app.footer("Exit code: 0 when nothing differs, 1 when something does or a plan cannot be read.");
  app.add_option("LEFT", options->left, "plan file")->required();
  app.add_option("RIGHT", options->right, "plan file")->required();
  app.add_flag("--json", options->json, "print JSON");
  return [options] {
    plan::PlanFile left = plan::PlanFile::open(options->left);
    plan::PlanFile right = plan::PlanFile::open(options->right);
    nlohmann::ordered_json differences = diffPlans(left, right);
    if (options->json) {
      nlohmann::ordered_json out = {{"equal", differences.empty()}, {"differences", differences}};
      fmt::print("{}\n", out.dump(1));
    } else {
      for (const auto &entry : differences)
        fmt::print("{}\n  - {}\n  + {}\n", entry["path"].get<std::string>(), entry["left"].dump(),
                   entry["right"].dump());
      fmt::print("{} difference{}\n", differences.size(), differences.size() == 1 ? "" : "s");
    }
    return differences.empty() ? 0 : 1;
  };
}

} // namespace m3c
