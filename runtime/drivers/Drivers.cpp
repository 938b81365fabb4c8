#include "runtime/drivers/Drivers.h"

#include "runtime/base/Error.h"
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c::hal {

namespace {

std::vector<std::string> missingFeatures(const plan::Target &target, const DeviceInfo &device) {
  std::vector<std::string> missing;
  for (const flatbuffers::String *feature : plan::list(target.required_features()))
    if (!device.supports(feature->string_view()))
      missing.push_back(feature->str());
  return missing;
}

} // namespace

std::vector<std::unique_ptr<Driver>> allDrivers() {
  std::vector<std::unique_ptr<Driver>> drivers;
  drivers.push_back(createHostDriver());
  return drivers;
}

const plan::Target *bestTarget(const plan::Tables &tables, const DeviceInfo &device) {
  const plan::Target *best = nullptr;
  for (const plan::Target *target : plan::list(tables.targets()))
    if (missingFeatures(*target, device).empty() &&
        (!best || plan::list(target->required_features()).size() >
                      plan::list(best->required_features()).size()))
      best = target;
  return best;
}

OpenedDevice openDeviceFor(const plan::Tables &tables, const std::string &planName,
                           const DeviceOptions &options) {
  std::string refused;
  for (const std::unique_ptr<Driver> &driver : allDrivers()) {
    std::vector<DeviceInfo> devices = driver->devices();
    for (size_t i = 0; i < devices.size(); ++i) {
      if (const plan::Target *target = bestTarget(tables, devices[i]))
        return {driver->open(i, options), target};
      for (const plan::Target *target : plan::list(tables.targets()))
        refused +=
            fmt::format("{}{} ({}) needs {}, which {} has not", refused.empty() ? "" : "; ",
                        target->name()->str(), target->chip()->str(),
                        fmt::join(missingFeatures(*target, devices[i]), ", "), devices[i].name);
    }
  }
  throw Error(fmt::format("{} has no code for this machine", planName), planName,
              refused.empty() ? "the plan has no targets" : refused,
              "compile the plan for a target that this machine runs: `m3c targets` lists them");
}

} // namespace m3c::hal
