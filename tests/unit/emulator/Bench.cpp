#include "tests/unit/emulator/Bench.h"

#include "passes/targets/gfx950/DeviceHeaders.h"
#include "passes/targets/sm100/DeviceHeaders.h"
#include "passes/targets/sm107/DeviceHeaders.h"
#include "passes/targets/sm90/DeviceHeaders.h"

namespace m3c::test {

using namespace hal;

static std::unique_ptr<Device> openDevice(const std::string &target, uint64_t seed) {
  return openEmulatedDevice(loadEmulator(), {target, seed, 2});
}

std::vector<std::byte> emulatedCode(const std::string &text, const std::string &target) {
  SourceText source;
  source.text = text;
  const auto &headers = target == "sm100"    ? sm100DeviceHeaders()
                        : target == "sm107"  ? sm107DeviceHeaders()
                        : target == "gfx950" ? gfx950DeviceHeaders()
                                             : sm90DeviceHeaders();
  source.headers.assign(headers.begin(), headers.end());
  return openDevice(target, 1)->build(source, "test");
}

void runEmulated(const BenchKernel &kernel, std::vector<std::vector<std::byte> *> contents,
                 uint64_t seed) {
  std::unique_ptr<Device> device = openDevice(kernel.target, seed);
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Module> module =
      device->load(emulatedCode(kernel.text, kernel.target), kernel.name);
  std::unique_ptr<Kernel> loaded = module->kernel(
      kernel.name, {uint32_t(contents.size()), kernel.sharedBytes, kernel.threads, kernel.cluster});
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<uint64_t> parameters;
  for (const std::vector<std::byte> *content : contents) {
    std::string name = "buffer " + std::to_string(buffers.size());
    buffers.push_back(device->allocate(content->size(), MemoryKind::Device, name));
    stream->write(*buffers.back(), 0, *content);
    parameters.push_back(buffers.back()->address());
  }
  // Once for each way in which copies land.
  for (int landing = 0; landing < 3; ++landing) {
    for (size_t i = 0; i < contents.size(); ++i)
      stream->write(*buffers[i], 0, *contents[i]);
    stream->launch(*loaded, kernel.grid, parameters, kernel.name);
  }
  for (size_t i = 0; i < contents.size(); ++i)
    stream->read(*buffers[i], 0, *contents[i]);
}

} // namespace m3c::test
