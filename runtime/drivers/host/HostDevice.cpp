#include "runtime/drivers/host/HostDevice.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace m3c::hal {

namespace {

constexpr uint64_t hugePage = 2 << 20;

/// Pages straight from the system: zero, and large pages where they pay.
class HostBuffer final : public Buffer {
public:
  HostBuffer(Counters &counters, uint64_t bytes, std::string_view what)
      : counters(counters), length(bytes) {
    if (length == 0)
      return;
    void *mapped =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      throw Error(fmt::format("no memory for {}", what), std::string(what),
                  fmt::format("{} bytes: {}", length, std::strerror(errno)),
                  "use a smaller cache or batch, or a machine with more memory");
    data = static_cast<std::byte *>(mapped);
    if (length >= hugePage)
      madvise(data, length, MADV_HUGEPAGE);
    counters.allocations++;
    uint64_t alive = counters.allocatedBytes += length;
    if (alive > counters.peakBytes)
      counters.peakBytes = alive;
  }
  ~HostBuffer() override {
    if (!data)
      return;
    munmap(data, length);
    counters.allocatedBytes -= length;
  }

  uint64_t size() const override { return length; }
  uint64_t address() const override { return reinterpret_cast<uint64_t>(data); }
  std::byte *host() override { return data; }

private:
  Counters &counters;
  uint64_t length;
  std::byte *data = nullptr;
};

/// Work is done when a call on the stream returns, so an event has always happened.
class HostEvent final : public Event {
public:
  bool done() const override { return true; }
  void wait() override {}
};

uint64_t numberAfter(const char *path, const std::string &key) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (uint64_t value; word == key && file >> value)
      return value;
  return 0;
}

/// Bytes that the control group still grants; a large number without a limit.
uint64_t controlGroupHeadroom() {
  uint64_t limit = 0, used = 0;
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> limit) ||
      !(std::ifstream("/sys/fs/cgroup/memory.current") >> used))
    return UINT64_MAX;
  // File pages count as used, but give way.
  used -= std::min(used, numberAfter("/sys/fs/cgroup/memory.stat", "inactive_file"));
  return limit - std::min(limit, used);
}

} // namespace

void SharedArenas::reserve(uint64_t bytes) {
  if (bytes <= size)
    return;
  size = (bytes + 4095) / 4096 * 4096;
  for (auto &area : areas) {
    area.reset(static_cast<std::byte *>(std::aligned_alloc(4096, size)));
    if (!area)
      throw Error("no memory for the kernels' scratch areas", "host driver",
                  fmt::format("{} bytes for each of {} workers", size, areas.size()));
  }
}

HostDevice::HostDevice(DeviceInfo info, std::vector<int> cores, ThreadPool::Options options)
    : description(std::move(info)), pool(std::move(cores), options), arenas(pool.workers()) {
  description.workers = pool.workers();
  arenas.reserve(1);
}

std::unique_ptr<Buffer> HostDevice::allocate(uint64_t bytes, MemoryKind, std::string_view what) {
  return std::make_unique<HostBuffer>(counts, bytes, what);
}

std::unique_ptr<Module> HostDevice::load(std::span<const std::byte> code, std::string_view name) {
  return loadHostModule(*this, code, name);
}

std::unique_ptr<Stream> HostDevice::createStream() { return createHostStream(*this); }
std::unique_ptr<Event> HostDevice::createEvent() { return std::make_unique<HostEvent>(); }
std::unique_ptr<Graph> HostDevice::createGraph() { return createHostGraph(*this); }

uint64_t HostDevice::availableBytes() const {
  uint64_t free = numberAfter("/proc/meminfo", "MemAvailable:") * 1024;
  return std::min(free, controlGroupHeadroom());
}

} // namespace m3c::hal
