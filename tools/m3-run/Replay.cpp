// `m3-run replay`: runs capsules and judges what they leave.
#include "runtime/base/Error.h"
#include "runtime/capsule/Capsule.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"
#include "tools/common/Tell.h"
#include "tools/m3-run/Options.h"

#include <fmt/format.h>

namespace m3c {
namespace {

struct Arguments {
  std::vector<std::string> capsules;
  std::string device, emulate;
  uint64_t seed = 1;
  bool fromSource = false;
};

std::unique_ptr<hal::Device> openFor(const Arguments &arguments) {
  checkDeviceChoice(arguments.device, arguments.emulate);
  if (!arguments.emulate.empty())
    return hal::openEmulatedDevice(hal::loadEmulator(), {arguments.emulate, arguments.seed, 0});
  hal::DeviceOptions options;
  options.device = arguments.device;
  return hal::openDevice(options);
}

/// The texts of another target do not compile, or say what this one does not do.
void checkTarget(const Capsule &capsule, const std::string &emulated, const std::string &folder) {
  if (emulated.empty() || capsule.target == emulated)
    return;
  bool hasEmulator = !capsule.source.text.empty() && capsule.source.headers.size() > 0;
  throw Error(fmt::format("{} cannot run the capsule of {}", emulated, capsule.kernel), folder,
              fmt::format("it is for {} ({})", capsule.target, capsule.chip),
              hasEmulator ? fmt::format("replay it with --emulate {}", capsule.target)
                          : fmt::format("replay it on a machine that has {}", capsule.chip),
              ExitCode::Usage);
}

/// One line for each result; false when one is not as expected.
bool replayOne(const Arguments &arguments, hal::Device &device, const std::string &folder) {
  Capsule capsule = readCapsule(folder);
  checkTarget(capsule, arguments.emulate, folder);
  bool good = true;
  for (const CapsuleOutcome &outcome :
       replayCapsule(capsule, device, arguments.fromSource || !arguments.emulate.empty())) {
    good &= outcome.good();
    std::string how = "the same bytes";
    if (outcome.different)
      how = fmt::format("{} of {} elements differ, by {:.3g} at most ({:.3g} allowed)",
                        outcome.different, outcome.elements, outcome.worst, outcome.tolerance);
    fmt::print("{:<6} {} {}: {}\n", outcome.good() ? "good" : "WRONG", capsule.label, outcome.name,
               how);
  }
  return good;
}

int runReplay(const Arguments &arguments) {
  std::unique_ptr<hal::Device> device = openFor(arguments);
  tell("on {}\n", device->info().name);
  bool good = true;
  for (const std::string &folder : arguments.capsules)
    good &= replayOne(arguments, *device, folder);
  return good ? 0 : 1;
}

} // namespace

std::function<int()> setUpReplay(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("capsules", arguments->capsules, "folders of capsules")->required();
  app.add_option("--device", arguments->device, "host, cuda or cuda:N; default: the best");
  app.add_option("--emulate", arguments->emulate, "target to emulate instead");
  app.add_option("--emulate-seed", arguments->seed,
                 "seed of the order in which emulated threads run")
      ->capture_default_str();
  app.add_flag("--from-source", arguments->fromSource, "build the kernel's source on the device");
  return [arguments] { return runReplay(*arguments); };
}

} // namespace m3c
