#include "tests/numerics/HeaderFaults.h"

#include "passes/targets/common/Target.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"

namespace m3c::numerics {

void plant(KernelProgram &built, const std::string &chip, const HeaderFault &fault) {
  const Target &target = *findChip(chip).first;
  std::map<std::string, std::string> headers = target.deviceHeaders();
  std::string &text = headers[fault.file];
  size_t at = text.find(fault.from);
  if (at == std::string::npos)
    throw Error(std::string("the fault ") + fault.name + " has no place", fault.file,
                std::string("nothing there reads: ") + fault.from,
                "bring the list of planted faults up to date");
  text.replace(at, std::string(fault.from).size(), fault.to);
  auto device = hal::openEmulatedDevice(hal::loadEmulator(), {target.name().str(), 1, 1});
  for (auto &[name, kernel] : built.kernels) {
    if (kernel.standsIn)
      continue;
    hal::SourceText source{kernel.source, {}, {}};
    source.headers.assign(headers.begin(), headers.end());
    kernel.code = device->build(source, name);
  }
}

} // namespace m3c::numerics
