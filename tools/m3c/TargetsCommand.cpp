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

static nlohmann::ordered_json factsJson(const ChipFacts &facts) {
  return {{"units", facts.units},
          {"unit_shared_bytes", facts.unitSharedBytes},
          {"tensor_columns", facts.tensorColumns},
          {"registers", facts.registers},
          {"bytes_per_second", facts.bytesPerSecond},
          {"unit_threads", facts.unitThreads},
          {"unit_items", facts.unitItems},
          {"fp32_flops", facts.fp32},
          {"fp16_flops", facts.fp16},
          {"fp8_flops", facts.fp8},
          {"source", facts.source},
          {"confirmed", facts.confirmed}};
}

/// "132 units, 228 KiB of shared memory each, …": what is known.
static std::string factsText(const nlohmann::ordered_json &facts) {
  std::vector<std::string> parts;
  auto add = [&](const char *key, double unit, const char *what) {
    if (double value = facts[key].get<double>(); value > 0)
      parts.push_back(fmt::format("{:g} {}", value / unit, what));
  };
  add("units", 1, "units");
  add("unit_shared_bytes", 1024, "KiB of shared memory each");
  add("tensor_columns", 1, "columns of tensor memory");
  add("registers", 1024, "Ki registers each");
  add("unit_threads", 1, "threads each");
  add("bytes_per_second", 1e12, "TB/s");
  add("fp16_flops", 1e15, "PF of FP16");
  add("fp8_flops", 1e15, "of FP8");
  return fmt::format("{} ({}; {})", fmt::join(parts, ", "), facts["source"].get<std::string>(),
                     facts["confirmed"].get<bool>() ? "confirmed" : "not confirmed");
}

static nlohmann::ordered_json targetsJson() {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto &target : allTargets()) {
    nlohmann::ordered_json chips = nlohmann::ordered_json::array();
    for (const Chip &chip : target->chips()) {
      chips.push_back({{"name", chip.name},
                       {"requires", chip.features},
                       {"toolchain", toolchainText(*target, chip)}});
      if (!chip.facts.source.empty())
        chips.back()["facts"] = factsJson(chip.facts);
    }
    out.push_back({{"name", target->name().str()},
                   {"available", true},
                   {"chips", chips},
                   {"proof", target->proof().str()}});
    if (!target->fallback().empty()) {
      out.back()["emits"] = target->emitted().str();
      out.back()["fallback"] = target->fallback().str();
    }
  }
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
      if (target.contains("fallback"))
        fmt::print("           not complete: {} stands in for all but {}\n",
                   target["fallback"].get<std::string>(), target["emits"].get<std::string>());
      for (const auto &chip : target["chips"]) {
        fmt::print("           {:<14} {}{}\n", chip["name"].get<std::string>(),
                   chip["toolchain"].get<std::string>(),
                   chip.contains("requires") ? ", needs " + chip["requires"].dump() : "");
        if (chip.contains("facts"))
          fmt::print("           {:<14} {}\n", "", factsText(chip["facts"]));
      }
    }
    return 0;
  };
}

} // namespace m3c
