// `m3c doctor`: tools and versions found, what this machine can run, and what is missing. Exit code
// 1 when something that compiling or running needs is missing.
#include "compiler/toolchains/Probe.h"
#include "runtime/base/ContentCache.h"
#include "runtime/drivers/Drivers.h"
#include "tools/m3c/Commands.h"

#include <filesystem>
#include <memory>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace m3c {
namespace {

enum class State { Ok, Note, Missing };

struct Finding {
  State state;
  std::string what, detail;
};

constexpr const char *stateNames[] = {"ok", "note", "missing"};

void addToolchains(std::vector<Finding> &findings) {
  for (const toolchains::ProbedTool &tool : toolchains::probeTools()) {
    State state = tool.found ? State::Ok : tool.required ? State::Missing : State::Note;
    findings.push_back({state, tool.name, tool.detail});
  }
}

void addDevices(std::vector<Finding> &findings) {
  for (const auto &driver : hal::allDrivers()) {
    auto devices = driver->devices();
    if (devices.empty())
      findings.push_back({State::Note, fmt::format("driver {}", driver->name()),
                          "no device here: " + driver->absence()});
    for (const hal::DeviceInfo &device : devices)
      findings.push_back(
          {State::Ok, fmt::format("driver {}", driver->name()),
           fmt::format("{}: {} workers, {:.1f} GB{}{}, features {}", device.name, device.workers,
                       double(device.memoryBytes) / 1e9, device.software.empty() ? "" : ", ",
                       device.software, fmt::join(device.features, " "))});
  }
}

void addFolder(std::vector<Finding> &findings, const std::string &what,
               const std::filesystem::path &path, State otherwise) {
  if (path.empty()) {
    findings.push_back({otherwise, what, "neither XDG_CACHE_HOME nor HOME is set"});
    return;
  }
  std::filesystem::path existing = path;
  while (!std::filesystem::exists(existing) && existing.has_relative_path())
    existing = existing.parent_path();
  std::error_code error;
  auto space = std::filesystem::space(existing, error);
  bool writable = ::access(existing.c_str(), W_OK) == 0;
  findings.push_back({writable ? State::Ok : otherwise, what,
                      fmt::format("{}, {}, {:.1f} GB free", path.string(),
                                  writable ? "writable" : "cannot be written",
                                  error ? 0.0 : double(space.available) / 1e9)});
}

int runDoctor(bool json) {
  std::vector<Finding> findings = {{State::Ok, "m3c", M3C_VERSION}};
  addToolchains(findings);
  addDevices(findings);
  addFolder(findings, "cache folder", ContentCache::defaultFolder(), State::Note);
  addFolder(findings, "temporary folder", std::filesystem::temp_directory_path(), State::Missing);
  bool sound = true;
  nlohmann::ordered_json out = {{"ok", true}, {"findings", nlohmann::ordered_json::array()}};
  for (const Finding &finding : findings) {
    sound &= finding.state != State::Missing;
    if (!json)
      fmt::print("{:<8} {:<18} {}\n", stateNames[int(finding.state)], finding.what, finding.detail);
    out["findings"].push_back({{"state", stateNames[int(finding.state)]},
                               {"what", finding.what},
                               {"detail", finding.detail}});
  }
  out["ok"] = sound;
  if (json)
    fmt::print("{}\n", out.dump(1));
  return sound ? 0 : 1;
}

} // namespace

std::function<int()> setUpDoctor(CLI::App &app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "print JSON");
  return [json] { return runDoctor(*json); };
}

} // namespace m3c
