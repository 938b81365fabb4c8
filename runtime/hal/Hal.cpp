#include "runtime/hal/Hal.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

#include <algorithm>

namespace m3c::hal {

bool DeviceInfo::supports(std::string_view feature) const {
  return std::binary_search(features.begin(), features.end(), feature);
}

void Device::reach(Device &other) {
  throw Error(fmt::format("{} cannot reach the memory of {}", info().name, other.info().name),
              info().driver, "their driver maps no memory of one device into another",
              "copy through the host, or take devices that list each other in DeviceInfo::peers");
}

std::unique_ptr<Module> Device::loadFallback(std::span<const std::byte>, std::string_view name) {
  throw Error(fmt::format("kernel {} has no code for {}", name, info().name), std::string(name),
              "the plan has code of the CPU in its place, which only an emulated device runs",
              "run the plan with --emulate");
}

std::vector<std::byte> Device::build(const SourceText &, const std::string &name) const {
  throw Error(fmt::format("kernel {} cannot be built here", name), info().name,
              fmt::format("the {} driver builds no kernels from their source", info().driver),
              "compile the plan for this machine");
}

void checkRange(uint64_t offset, uint64_t bytes, uint64_t size, std::string_view what) {
  if (offset > size || bytes > size - offset)
    throw Error(fmt::format("{} lies outside its buffer", what), std::string(what),
                fmt::format("{} bytes at {} of a buffer of {} bytes", bytes, offset, size));
}

void checkParameters(const Kernel &kernel, size_t given, std::string_view label) {
  if (given != kernel.parameters())
    throw Error(fmt::format("launch {} cannot be built", label), std::string(label),
                fmt::format("kernel {} takes {} parameters, {} were given", kernel.name(),
                            kernel.parameters(), given));
}

} // namespace m3c::hal
