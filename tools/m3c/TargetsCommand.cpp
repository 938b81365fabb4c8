// `m3c targets`: what can be compiled for, by which toolchain, and how each is proven.
#include "passes/targets/common/Accelerators.h"
#include "passes/targets/common/Target.h"
#include "runtime/base/Error.h"
#include "tools/m3c/Commands.h"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace m3c {

/// The toolchain's version, or why there is none on this machine.
static std::string toolchainText(const Target &target, const Chip &chip) {
  try {
    return target.toolchain(chip);
  } catch (const Error &error) {
    return fmt::format("not here: {}", error.summary());
  }
}

static nlohmann::ordered_json targetsJson() {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto &target : allTargets()) {
    nlohmann::ordered_json chips = nlohmann::ordered_json::array();
    for (const Chip &chip : target->chips())
      chips.push_back({{"name", chip.name},
                       {"requires", chip.features},
                       {"toolchain", toolchainText(*target, chip)}});
    out.push_back({{"name", target->name().str()},
                   {"available", true},
                   {"chips", chips},
                   {"proof", target->proof().str()}});
  }
  for (const PlannedTarget &target : plannedTargets())
    out.push_back({{"name", target.name},
                   {"available", false},
                   {"chips", {{{"name", target.chips}, {"toolchain", target.toolchain}}}},
                   {"proof", "none: this version does not compile for it"}});
  return out;
}

std::function<int()> setUpTargets(CLI::App &app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "print JSON");
  return [json] {
    nlohmann::ordered_json targets = targetsJson();
    if (*json) {
      fmt::print("{}\n", targets.dump(1));
      return 0;
    }
    for (const auto &target : targets) {
      fmt::print("{:<8} {}\n", target["name"].get<std::string>(),
                 target["proof"].get<std::string>());
      for (const auto &chip : target["chips"])
        fmt::print("           {:<14} {}{}\n", chip["name"].get<std::string>(),
                   chip["toolchain"].get<std::string>(),
                   chip.contains("requires") ? ", needs " + chip["requires"].dump() : "");
    }
    return 0;
  };
}

} // namespace m3c
