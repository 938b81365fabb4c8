#include "runtime/drivers/cuda/CudaDevice.h"

#include "runtime/drivers/cuda/CudaBuild.h"
#include "runtime/drivers/cuda/OwnKernels.h"

#include <algorithm>
#include <fmt/format.h>

namespace m3c::hal::cuda {

CudaDevice::CudaDevice(std::shared_ptr<const Library> opened, DeviceId device, DeviceInfo info,
                       const DeviceOptions &options)
    : library(std::move(opened)), device(device), description(std::move(info)),
      everyLaunch(options.checkLaunches), allReaders{device} {
  check(library->call().cuDevicePrimaryCtxRetain(&primary, device), "cuDevicePrimaryCtxRetain",
        "opening " + description.name);
  Result result = call().cuStreamCreate(&service, StreamNonBlocking);
  if (result != Success) {
    library->call().cuDevicePrimaryCtxRelease_v2(device);
    check(result, "cuStreamCreate", "opening " + description.name);
  }
}

CudaDevice::~CudaDevice() {
  call().cuStreamDestroy_v2(service);
  library->call().cuDevicePrimaryCtxRelease_v2(device);
}

const Table &CudaDevice::call() const {
  library->call().cuCtxSetCurrent(primary);
  return library->call();
}

int CudaDevice::attribute(int which) const {
  int value = 0;
  check(call().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute",
        description.name);
  return value;
}

uint64_t CudaDevice::availableBytes() const {
  size_t free = 0, total = 0;
  check(call().cuMemGetInfo_v2(&free, &total), "cuMemGetInfo", description.name);
  return free;
}

std::unique_ptr<Buffer> CudaDevice::allocate(uint64_t bytes, MemoryKind kind,
                                             std::string_view what) {
  return allocateCuda(*this, bytes, kind, what);
}
void CudaDevice::reach(Device &given) {
  auto &other = static_cast<CudaDevice &>(given); // of the same driver
  if (std::ranges::count(other.allReaders, device))
    return;
  if (!std::ranges::count(description.peers, unsigned(other.device)))
    throw Error(fmt::format("{} (device {}) cannot reach the memory of device {}", description.name,
                            device, other.device),
                "cuda driver", "there is no direct way from one to the other",
                "nvidia-smi topo -m shows how the GPUs of this machine are joined");
  Result result = call().cuCtxEnablePeerAccess(other.primary, 0);
  if (result != PeerAccessEnabled) // by someone else in this process
    check(result, "cuCtxEnablePeerAccess", "reaching another GPU's memory");
  for (MappedMemory *memory : other.mapped)
    memory->allow(device);
  other.allReaders.push_back(device);
}

std::unique_ptr<Module> CudaDevice::load(std::span<const std::byte> code, std::string_view name) {
  return loadCudaModule(*this, code, name);
}
std::vector<std::byte> CudaDevice::build(const SourceText &source, const std::string &name) const {
  return buildCuda(source, name, architecture());
}

std::unique_ptr<Module> CudaDevice::ownKernels() {
  const std::string &text = cudaOwnKernels().at("made_up.ptx");
  return load(std::as_bytes(std::span(text)), "made_up");
}

/// The exact one, with its own instructions where there are such: "sm_90a".
std::string CudaDevice::architecture() const {
  for (const std::string &feature : description.features)
    if (feature.ends_with('a'))
      return feature;
  return description.features.back();
}

std::unique_ptr<Stream> CudaDevice::createStream() { return createCudaStream(*this); }
std::unique_ptr<Event> CudaDevice::createEvent() {
  return std::make_unique<CudaEvent>(*this, EventNoTiming);
}
std::unique_ptr<Graph> CudaDevice::createGraph() { return createCudaGraph(*this); }
DeviceLimits CudaDevice::measureLimits() { return measureCudaLimits(*this); }

CudaEvent::CudaEvent(const CudaDevice &device, unsigned flags) : device(device) {
  device.check(device.call().cuEventCreate(&handle, flags), "cuEventCreate", "making an event");
}

CudaEvent::~CudaEvent() { device.call().cuEventDestroy_v2(handle); }

bool CudaEvent::done() const {
  Result result = device.call().cuEventQuery(handle);
  if (result == NotReady)
    return false;
  device.check(result, "cuEventQuery", "work before an event");
  return true;
}

void CudaEvent::wait() {
  device.check(device.call().cuEventSynchronize(handle), "cuEventSynchronize",
               "work before an event");
}

} // namespace m3c::hal::cuda
