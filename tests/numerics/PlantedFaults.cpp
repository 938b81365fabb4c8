#include "tests/numerics/PlantedFaults.h"

#include "passes/targets/common/Target.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"

namespace m3c::numerics {
namespace {

[[noreturn]] void refuse(const char *fault, const std::string &where, const char *from) {
  throw Error(std::string("the fault ") + fault + " has no place", where,
              std::string("nothing there reads: ") + from,
              "bring the list of planted faults up to date");
}

/// Compiles kernels' texts with the chip's device headers for the emulator.
struct Builder {
  explicit Builder(const std::string &chip) {
    const Target &target = *findChip(chip).first;
    headers = target.deviceHeaders();
    device = hal::openEmulatedDevice(hal::loadEmulator(), {target.name().str(), 1, 1});
  }
  void build(const std::string &name, BuiltKernel &kernel) {
    hal::SourceText source{kernel.source, {}, {}};
    source.headers.assign(headers.begin(), headers.end());
    kernel.code = device->build(source, name);
  }

  std::map<std::string, std::string> headers;
  std::unique_ptr<hal::Device> device;
};

} // namespace

void plant(KernelProgram &built, const std::string &chip, const HeaderFault &fault) {
  Builder builder(chip);
  std::string &text = builder.headers[fault.file];
  size_t at = text.find(fault.from);
  if (at == std::string::npos)
    refuse(fault.name, fault.file, fault.from);
  text.replace(at, std::string(fault.from).size(), fault.to);
  for (auto &[name, kernel] : built.kernels)
    if (!kernel.standsIn)
      builder.build(name, kernel);
}

void plant(KernelProgram &built, const std::string &chip, const std::string &family,
           const TextFault &fault, std::regex_constants::match_flag_type places) {
  Builder builder(chip);
  const std::regex from(fault.from);
  for (auto &[name, kernel] : built.kernels) {
    if (kernel.standsIn || !name.starts_with(family))
      continue;
    if (!std::regex_search(kernel.source, from))
      refuse(fault.name, name, fault.from);
    kernel.source = std::regex_replace(kernel.source, from, fault.to, places);
    builder.build(name, kernel);
  }
}

} // namespace m3c::numerics
