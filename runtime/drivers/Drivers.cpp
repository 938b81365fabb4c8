#include "runtime/drivers/Drivers.h"

#include "runtime/base/Error.h"
#include "runtime/drivers/cuda/CudaDriver.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace m3c::hal {

namespace {

std::vector<std::string> missingFeatures(const plan::Target &target, const DeviceInfo &device) {
  std::vector<std::string> missing;
  for (const flatbuffers::String *feature : plan::list(target.required_features()))
    if (!device.supports(feature->string_view()))
      missing.push_back(feature->str());
  return missing;
}

/// What DeviceOptions::device says.
struct Choice {
  std::string driver;          ///< empty: any
  std::optional<size_t> index; ///< none: any
};

Choice parseChoice(const std::string &text) {
  Choice choice;
  size_t colon = text.find(':');
  choice.driver = text.substr(0, colon);
  bool known = text.empty();
  for (const std::unique_ptr<Driver> &driver : allDrivers())
    known |= driver->name() == choice.driver;
  if (colon != std::string::npos) {
    size_t index = 0;
    const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(begin, end, index);
    known &= error == std::errc() && stop == end;
    choice.index = index;
  }
  if (!known)
    throw Error(fmt::format("there is no device {}", text), "--device",
                "a driver's name, or one and a number, as in cuda:0", "`m3c doctor` lists devices",
                ExitCode::Usage);
  return choice;
}

/// Throws unless the driver has the device that is asked for.
void checkIndex(const Choice &choice, size_t count) {
  if (!choice.index || *choice.index < count || count == 0)
    return;
  throw Error(fmt::format("there is no device {}:{}", choice.driver, *choice.index), "--device",
              count == 1 ? fmt::format("there is one {0} device, {0}:0", choice.driver)
                         : fmt::format("there are {0} {1} devices, {1}:0 to {1}:{2}", count,
                                       choice.driver, count - 1),
              "give one of them; `m3c doctor` lists devices", ExitCode::Usage);
}

} // namespace

std::vector<std::unique_ptr<Driver>> allDrivers() {
  std::vector<std::unique_ptr<Driver>> drivers;
  drivers.push_back(createCudaDriver());
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

const plan::Target *sourceTarget(const plan::Tables &tables, const DeviceInfo &device) {
  for (const plan::Target *target : plan::list(tables.targets()))
    for (const flatbuffers::String *feature : plan::list(target->source_features()))
      if (device.supports(feature->string_view()))
        return target;
  return nullptr;
}

std::unique_ptr<Device> openDevice(const DeviceOptions &options) {
  Choice choice = parseChoice(options.device);
  std::string absent;
  for (const std::unique_ptr<Driver> &driver : allDrivers()) {
    if (!choice.driver.empty() && choice.driver != driver->name())
      continue;
    checkIndex(choice, driver->devices().size());
    if (!driver->devices().empty())
      return driver->open(choice.index.value_or(0), options);
    absent += driver->absence();
  }
  throw Error(fmt::format("there is no device {}", options.device), "--device", absent,
              "`m3c doctor` lists the devices");
}

/// The plan's code for a target that is named, run from its sources.
static OpenedDevice openEmulated(const plan::Tables &tables, const std::string &planName,
                                 const DeviceOptions &options) {
  std::vector<std::string> names; // a name has a target for each chip
  for (const plan::Target *target : plan::list(tables.targets())) {
    if (target->name()->string_view() == options.emulate)
      return {openEmulatedDevice(loadEmulator(),
                                 {options.emulate, options.emulationSeed, options.threads}),
              target, true};
    if (std::find(names.begin(), names.end(), target->name()->str()) == names.end())
      names.push_back(target->name()->str());
  }
  throw Error(fmt::format("{} has no code for {}", planName, options.emulate), "--emulate",
              fmt::format("it has code for {}", fmt::join(names, ", ")),
              "compile the plan for that target", ExitCode::Usage);
}

OpenedDevice openDeviceFor(const plan::Tables &tables, const std::string &planName,
                           const DeviceOptions &options) {
  if (!options.emulate.empty())
    return openEmulated(tables, planName, options);
  Choice choice = parseChoice(options.device);
  std::string refused;
  auto refuse = [&](const std::string &why) { refused += (refused.empty() ? "" : "; ") + why; };
  for (const std::unique_ptr<Driver> &driver : allDrivers()) {
    if (!choice.driver.empty() && choice.driver != driver->name())
      continue;
    std::vector<DeviceInfo> devices = driver->devices();
    checkIndex(choice, devices.size());
    if (devices.empty() && !choice.driver.empty())
      refuse(driver->absence());
    for (size_t i = 0; i < devices.size(); ++i) {
      if (choice.index && *choice.index != i)
        continue;
      if (const plan::Target *target = bestTarget(tables, devices[i]))
        return {driver->open(i, options), target};
      if (const plan::Target *target = sourceTarget(tables, devices[i]))
        return {driver->open(i, options), target, true};
      for (const plan::Target *target : plan::list(tables.targets()))
        refuse(fmt::format("{} ({}) needs {}, which {} has not", target->name()->str(),
                           target->chip()->str(),
                           fmt::join(missingFeatures(*target, devices[i]), ", "), devices[i].name));
    }
  }
  throw Error(fmt::format("{} has no code for {}", planName,
                          options.device.empty() ? "this machine" : "device " + options.device),
              planName, refused.empty() ? "the plan has no targets" : refused,
              "compile the plan for a target that this machine runs: `m3c targets` lists them");
}

} // namespace m3c::hal
