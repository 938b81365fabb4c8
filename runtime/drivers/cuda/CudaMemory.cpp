// Buffers: small ones from the driver's allocator, large ones as reserved addresses with physical
// memory mapped there, pinned host memory that kernels reach too. All are filled with zero bytes.
#include "runtime/drivers/cuda/CudaDevice.h"

#include <fmt/format.h>

#include <cstring>

namespace m3c::hal::cuda {

namespace {

constexpr uint64_t mappedFrom = 64 << 20; // bytes

class CudaBuffer : public Buffer {
public:
  uint64_t size() const override { return length; }
  uint64_t address() const override { return pointer; }
  std::byte *host() override { return nullptr; }

protected:
  CudaBuffer(CudaDevice &device, uint64_t bytes, std::string_view what)
      : device(device), length(bytes), what(what) {}

  void count() {
    Counters &counters = device.counters();
    counters.allocations++;
    uint64_t alive = counters.allocatedBytes += length;
    if (alive > counters.peakBytes)
      counters.peakBytes = alive;
  }
  void uncount() { device.counters().allocatedBytes -= length; }

  void check(Result result, const char *function) const {
    if (result == OutOfMemory)
      failMemory(function);
    device.check(result, function, fmt::format("allocating {}", what));
  }

  void zero() const {
    check(device.call().cuMemsetD8Async(pointer, 0, length, device.serviceStream()),
          "cuMemsetD8Async");
    check(device.call().cuStreamSynchronize(device.serviceStream()), "cuStreamSynchronize");
  }

  CudaDevice &device;
  uint64_t length;
  std::string what;
  DevicePtr pointer = 0;

private:
  [[noreturn]] void failMemory(const char *function) const {
    throw Error(fmt::format("no memory for {}", what), device.info().name,
                fmt::format("{}: {} bytes are needed, {} of {} are free", function, length,
                            device.availableBytes(), device.info().memoryBytes),
                "use a smaller cache or batch, or a GPU with more memory; nvidia-smi shows what "
                "others hold");
  }
};

class AllocatedBuffer final : public CudaBuffer {
public:
  AllocatedBuffer(CudaDevice &device, uint64_t bytes, std::string_view what)
      : CudaBuffer(device, bytes, what) {
    if (length == 0)
      return;
    check(device.call().cuMemAlloc_v2(&pointer, length), "cuMemAlloc");
    count();
    try {
      zero();
    } catch (...) {
      free();
      throw;
    }
  }
  ~AllocatedBuffer() override { free(); }

private:
  void free() {
    if (!pointer)
      return;
    device.call().cuMemFree_v2(pointer);
    uncount();
  }
};

/// A range of addresses with one piece of physical memory behind it.
class MappedBuffer final : public CudaBuffer, public MappedMemory {
public:
  MappedBuffer(CudaDevice &device, uint64_t bytes, std::string_view what)
      : CudaBuffer(device, bytes, what) {
    try {
      map();
      zero();
    } catch (...) {
      unmap();
      throw;
    }
    count();
    device.addMapped(this);
  }
  ~MappedBuffer() override {
    device.removeMapped(this);
    unmap();
    uncount();
  }

  void allow(DeviceId reader) override {
    MemoryAccess access = {{LocationDevice, reader}, AccessReadWrite};
    check(device.call().cuMemSetAccess(pointer, reserved, &access, 1), "cuMemSetAccess");
  }

private:
  void map() {
    AllocationProperties properties = {};
    properties.type = AllocationPinned;
    properties.location = {LocationDevice, device.id()};
    size_t step = 0;
    const Table &call = device.call();
    check(call.cuMemGetAllocationGranularity(&step, &properties, GranularityRecommended),
          "cuMemGetAllocationGranularity");
    uint64_t wanted = (length + step - 1) / step * step;
    check(call.cuMemAddressReserve(&pointer, wanted, 0, 0, 0), "cuMemAddressReserve");
    reserved = wanted;
    check(call.cuMemCreate(&memory, reserved, &properties, 0), "cuMemCreate");
    check(call.cuMemMap(pointer, reserved, 0, memory, 0), "cuMemMap");
    isMapped = true;
    for (DeviceId reader : device.readers())
      allow(reader);
  }

  void unmap() {
    const Table &call = device.call();
    if (isMapped)
      call.cuMemUnmap(pointer, reserved);
    if (memory)
      call.cuMemRelease(memory);
    if (reserved)
      call.cuMemAddressFree(pointer, reserved);
  }

  uint64_t reserved = 0;
  MemoryHandle memory = 0;
  bool isMapped = false;
};

class PinnedBuffer final : public CudaBuffer {
public:
  PinnedBuffer(CudaDevice &device, uint64_t bytes, std::string_view what)
      : CudaBuffer(device, bytes, what) {
    if (length == 0)
      return;
    void *memory = nullptr;
    check(device.call().cuMemHostAlloc(&memory, length, HostPortable | HostMapped),
          "cuMemHostAlloc");
    data = static_cast<std::byte *>(memory);
    Result result = device.call().cuMemHostGetDevicePointer_v2(&pointer, memory, 0);
    if (result != Success) {
      device.call().cuMemFreeHost(memory);
      check(result, "cuMemHostGetDevicePointer");
    }
    std::memset(data, 0, length);
    count();
  }
  ~PinnedBuffer() override {
    if (!data)
      return;
    device.call().cuMemFreeHost(data);
    uncount();
  }
  std::byte *host() override { return data; }

private:
  std::byte *data = nullptr;
};

} // namespace

std::unique_ptr<Buffer> allocateCuda(CudaDevice &device, uint64_t bytes, MemoryKind kind,
                                     std::string_view what) {
  if (kind == MemoryKind::Host)
    return std::make_unique<PinnedBuffer>(device, bytes, what);
  if (bytes >= mappedFrom && device.attribute(AttributeVirtualMemory))
    return std::make_unique<MappedBuffer>(device, bytes, what);
  return std::make_unique<AllocatedBuffer>(device, bytes, what);
}

} // namespace m3c::hal::cuda
