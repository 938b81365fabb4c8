#include "runtime/drivers/Drivers.h"

#include "runtime/base/Error.h"
#include "runtime/drivers/cuda/CudaDriver.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/plan/Objects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace m3c::hal {

namespace {

using Features = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

std::vector<std::string> missingOf(const Features *features, const DeviceInfo &device) {
  std::vector<std::string> missing;
  for (const flatbuffers::String *feature : plan::list(features))
    if (!device.supports(feature->string_view()))
      missing.push_back(feature->str());
  return missing;
}

std::vector<std::string> missingFeatures(const plan::Target &target, const DeviceInfo &device) {
  return missingOf(target.required_features(), device);
}

/// Kernels that a target launches, and those of them that it has no code for.
struct KernelCounts {
  size_t all = 0, missing = 0;
};

KernelCounts countKernels(const plan::Tables &tables, const plan::Target &target) {
  std::set<uint32_t> launched;
  for (const plan::Bucket *bucket : plan::list(target.buckets()))
    for (const plan::Launch *launch : plan::list(bucket->launches()))
      launched.insert(launch->kernel());
  KernelCounts counts{launched.size(), 0};
  for (uint32_t kernel : launched)
    counts.missing +=
        !plan::objectFor(*tables.kernels()->Get(kernel), target.chip()->string_view());
  return counts;
}

/// Why a target that lacks kernels runs on no device.
std::string incompleteText(const plan::Tables &tables, const plan::Target &target) {
  KernelCounts counts = countKernels(tables, target);
  return fmt::format(
      "{} ({}) has no code yet for {} of its {} kernels; --emulate {} runs it on the "
      "CPU",
      target.name()->str(), target.chip()->str(), counts.missing, counts.all, target.name()->str());
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
    if (!plan::isIncomplete(*target) && missingFeatures(*target, device).empty() &&
        (!best || plan::list(target->required_features()).size() >
                      plan::list(best->required_features()).size()))
      best = target;
  return best;
}

const plan::Target *sourceTarget(const plan::Tables &tables, const DeviceInfo &device) {
  for (const plan::Target *target : plan::list(tables.targets()))
    for (const flatbuffers::String *feature : plan::list(target->source_features()))
      if (!plan::isIncomplete(*target) && device.supports(feature->string_view()))
        return target;
  return nullptr;
}

std::unique_ptr<Device> openDevice(const DeviceOptions &options) {
  Choice choice = parseChoice(options.device);
  std::string absent;
  for (const std::unique_ptr<Driver> &driver : allDrivers()) {
    if (!choice.driver.empty() && choice.driver != driver->name())
      continue;
    size_t count = driver->devices().size();
    checkIndex(choice, count);
    if (count)
      return driver->open(choice.index.value_or(0), options);
    absent += driver->absence();
  }
  throw Error(fmt::format("there is no device {}", options.device), "--device", absent,
              "`m3c doctor` lists the devices");
}

/// Throws where this machine's CPU cannot run what stands in for kernels of the target.
static void checkFallback(const plan::Target &target) {
  std::vector<DeviceInfo> cpus = createHostDriver()->devices();
  std::vector<std::string> missing =
      missingOf(target.fallback_features(), cpus.empty() ? DeviceInfo() : cpus.front());
  if (!missing.empty())
    throw Error(fmt::format("{} cannot be emulated here", target.name()->str()), "--emulate",
                fmt::format("kernels of {} stand in for those that it lacks, and this machine's "
                            "CPU has no {}",
                            target.fallback_chip()->str(), fmt::join(missing, ", ")),
                "run it on a machine that has them");
}

/// The plan's code for a target that is named, or for a chip of it, run from its sources.
static OpenedDevice openEmulated(const plan::Tables &tables, const std::string &planName,
                                 const DeviceOptions &options) {
  const plan::Target *target = plan::findTarget(tables, options.emulate);
  if (!target)
    plan::refuseTarget(tables, planName, options.emulate, "--emulate");
  checkFallback(*target);
  return {openEmulatedDevice(loadEmulator(),
                             {target->name()->str(), options.emulationSeed, options.threads}),
          target, true};
}

/// The plan's targets whose work items have several hardware threads: the emulator may have them.
static std::string emulatedTargets(const plan::Tables &tables) {
  std::vector<std::string> names;
  for (const plan::Target *target : plan::list(tables.targets())) {
    bool isEmulated = false;
    for (const plan::Kernel *kernel : plan::list(tables.kernels()))
      for (const plan::CodeObject *object : plan::list(kernel->objects()))
        isEmulated |= object->threads() > 1 && object->chip()->str() == target->chip()->str();
    if (isEmulated)
      names.push_back(target->name()->str());
  }
  return fmt::format("{}", fmt::join(names, " or "));
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
        refuse(plan::isIncomplete(*target) && missingFeatures(*target, devices[i]).empty()
                   ? incompleteText(tables, *target)
                   : fmt::format("{} ({}) needs {}, which {} has not", target->name()->str(),
                                 target->chip()->str(),
                                 fmt::join(missingFeatures(*target, devices[i]), ", "),
                                 devices[i].name));
    }
  }
  std::string next =
      "compile the plan for a target that this machine runs: `m3c targets` lists them";
  if (std::string others = emulatedTargets(tables); !others.empty())
    next += fmt::format(", or emulate: `--emulate {}`, of a plan with --keep-sources", others);
  throw Error(fmt::format("{} has no code for {}", planName,
                          options.device.empty() ? "this machine" : "device " + options.device),
              planName, refused.empty() ? "the plan has no targets" : refused, next);
}

} // namespace m3c::hal
