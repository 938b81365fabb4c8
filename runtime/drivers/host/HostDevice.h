// The device that is this machine's processor. Work on a stream is done before the call returns.
#pragma once

#include "runtime/drivers/host/ThreadPool.h"
#include "runtime/hal/Hal.h"
#include "runtime/hal/HostKernel.h"

#include <cstdlib>

namespace m3c::hal {

/// Scratch memory of the workers: one 64-byte aligned area each, grown when a kernel is loaded.
class SharedArenas {
public:
  explicit SharedArenas(unsigned workers) : areas(workers) {}
  /// Makes every area at least `bytes` long. Never called while work runs.
  void reserve(uint64_t bytes);
  std::byte *of(unsigned worker) const { return areas[worker].get(); }

private:
  struct Free {
    void operator()(std::byte *area) const { std::free(area); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> areas;
  uint64_t size = 0;
};

class HostDevice final : public Device {
public:
  HostDevice(DeviceInfo info, std::vector<int> cores, ThreadPool::Options options);

  const DeviceInfo &info() const override { return description; }
  std::unique_ptr<Buffer> allocate(uint64_t bytes, MemoryKind kind, std::string_view what) override;
  std::unique_ptr<Module> load(std::span<const std::byte> code, std::string_view name) override;
  std::unique_ptr<Stream> createStream() override;
  std::unique_ptr<Event> createEvent() override;
  std::unique_ptr<Graph> createGraph() override;
  Counters &counters() override { return counts; }
  uint64_t availableBytes() const override;
  DeviceLimits measureLimits() override;

  ThreadPool &threads() { return pool; }
  SharedArenas &shared() { return arenas; }

private:
  DeviceInfo description;
  ThreadPool pool;
  SharedArenas arenas;
  Counters counts;
};

class HostKernel final : public Kernel {
public:
  HostKernel(std::string name, HostKernelFn function, uint32_t parameters)
      : kernelName(std::move(name)), code(function), parameterCount(parameters) {}
  const std::string &name() const override { return kernelName; }
  uint32_t parameters() const override { return parameterCount; }
  HostKernelFn function() const { return code; }

private:
  std::string kernelName;
  HostKernelFn code;
  uint32_t parameterCount;
};

/// Maps a shared object from memory: an anonymous file that the dynamic linker opens.
std::unique_ptr<Module> loadHostModule(HostDevice &device, std::span<const std::byte> code,
                                       std::string_view name);

std::unique_ptr<Stream> createHostStream(HostDevice &device);
std::unique_ptr<Graph> createHostGraph(HostDevice &device);

} // namespace m3c::hal
