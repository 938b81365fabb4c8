// One NVIDIA GPU: its primary context, and what streams, graphs, buffers and modules share.
#pragma once

#include "runtime/drivers/cuda/CudaLibrary.h"
#include "runtime/hal/Hal.h"

#include <set>
#include <vector>

namespace m3c::hal::cuda {

/// A buffer in mapped memory, which each device that reaches it must be allowed by itself.
class MappedMemory {
public:
  virtual ~MappedMemory() = default;
  virtual void allow(DeviceId device) = 0;
};

class CudaDevice final : public Device {
public:
  CudaDevice(std::shared_ptr<const Library> library, DeviceId device, DeviceInfo info,
             const DeviceOptions &options);
  ~CudaDevice() override;

  const DeviceInfo &info() const override { return description; }
  std::unique_ptr<Buffer> allocate(uint64_t bytes, MemoryKind kind, std::string_view what) override;
  void reach(Device &other) override;
  std::unique_ptr<Module> load(std::span<const std::byte> code, std::string_view name) override;
  std::vector<std::byte> build(const SourceText &source, const std::string &name) const override;
  std::unique_ptr<Module> ownKernels() override;
  std::unique_ptr<Stream> createStream() override;
  std::unique_ptr<Event> createEvent() override;
  std::unique_ptr<Graph> createGraph() override;
  Counters &counters() override { return counts; }
  uint64_t availableBytes() const override;
  DeviceLimits measureLimits() override;

  /// The functions, with this device's context current on the calling thread.
  const Table &call() const;
  const Library &api() const { return *library; }
  void check(Result result, const char *function, std::string_view what) const {
    library->check(result, function, what);
  }
  int attribute(int which) const;
  DeviceId id() const { return device; }
  Context context() const { return primary; }
  bool checksLaunches() const { return everyLaunch; }
  /// For work of the device itself, such as filling new memory; always synchronised after use.
  StreamHandle serviceStream() const { return service; }

  /// Devices that reach this one's memory, itself first.
  const std::vector<DeviceId> &readers() const { return allReaders; }
  void addMapped(MappedMemory *memory) { mapped.insert(memory); }
  void removeMapped(MappedMemory *memory) { mapped.erase(memory); }

private:
  std::string architecture() const;

  std::shared_ptr<const Library> library;
  DeviceId device;
  DeviceInfo description;
  bool everyLaunch;
  Context primary = nullptr;
  StreamHandle service = nullptr;
  Counters counts;
  std::vector<DeviceId> allReaders;
  std::set<MappedMemory *> mapped;
};

class CudaKernel final : public Kernel {
public:
  CudaKernel(std::string name, Function function, const KernelShape &shape)
      : kernelName(std::move(name)), code(function), launchShape(shape) {}
  const std::string &name() const override { return kernelName; }
  uint32_t parameters() const override { return launchShape.parameters; }
  Function function() const { return code; }
  const KernelShape &shape() const { return launchShape; }

private:
  std::string kernelName;
  Function code;
  KernelShape launchShape;
};

class CudaEvent final : public Event {
public:
  CudaEvent(const CudaDevice &device, unsigned flags);
  ~CudaEvent() override;
  bool done() const override;
  void wait() override;
  EventHandle get() const { return handle; }

private:
  const CudaDevice &device;
  EventHandle handle = nullptr;
};

std::unique_ptr<Buffer> allocateCuda(CudaDevice &device, uint64_t bytes, MemoryKind kind,
                                     std::string_view what);
std::unique_ptr<Module> loadCudaModule(const CudaDevice &device, std::span<const std::byte> code,
                                       std::string_view name);
std::unique_ptr<Stream> createCudaStream(CudaDevice &device);
std::unique_ptr<Graph> createCudaGraph(CudaDevice &device);
DeviceLimits measureCudaLimits(CudaDevice &device);

} // namespace m3c::hal::cuda
