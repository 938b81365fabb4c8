// The drivers of this build, and the choice of a device and of a plan's target for it.
#pragma once

#include "runtime/hal/Hal.h"
#include "runtime/plan/plan_generated.h"

namespace m3c::hal {

/// In order of preference.
std::vector<std::unique_ptr<Driver>> allDrivers();

/// The target of the plan that suits the device: all its required features are there; of several,
/// the one that requires most; of equals, the first. Null when none suits. A target that lacks
/// kernels suits no device.
const plan::Target *bestTarget(const plan::Tables &tables, const DeviceInfo &device);

/// The first target that has no code for the device, but sources that it can build. Null when none
/// has.
const plan::Target *sourceTarget(const plan::Tables &tables, const DeviceInfo &device);

/// Opens the first device that `options.device` lets in. Throws Error when there is none.
std::unique_ptr<Device> openDevice(const DeviceOptions &options);

/// Opens the first device that one of the plan's targets suits or can be built for, of those that
/// `options.device` lets in, and returns it with that target. Throws Error that lists what each
/// target lacks on each of them, and for a choice that names no driver of this build.
struct OpenedDevice {
  std::unique_ptr<Device> device;
  const plan::Target *target;
  bool fromSource = false; ///< the target's code is for another device
};
OpenedDevice openDeviceFor(const plan::Tables &tables, const std::string &planName,
                           const DeviceOptions &options);

} // namespace m3c::hal
