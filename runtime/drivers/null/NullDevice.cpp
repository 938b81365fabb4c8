#include "runtime/drivers/null/NullDevice.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace m3c::hal {

namespace {

class NullBuffer final : public Buffer {
public:
  NullBuffer(Counters &counters, uint64_t bytes) : counters(counters), length(bytes) {
    uint64_t rounded = std::max<uint64_t>(64, (bytes + 63) / 64 * 64);
    data.reset(static_cast<std::byte *>(std::aligned_alloc(64, rounded)));
    if (!data)
      throw Error("no memory", "null driver", fmt::format("{} bytes", bytes));
    std::memset(data.get(), 0, rounded);
    counters.allocations++;
    counters.peakBytes = std::max<uint64_t>(counters.peakBytes, counters.allocatedBytes += length);
  }
  ~NullBuffer() override { counters.allocatedBytes -= length; }
  uint64_t size() const override { return length; }
  uint64_t address() const override { return reinterpret_cast<uint64_t>(data.get()); }
  std::byte *host() override { return data.get(); }

private:
  struct Free {
    void operator()(std::byte *memory) const { std::free(memory); }
  };
  Counters &counters;
  uint64_t length;
  std::unique_ptr<std::byte, Free> data;
};

class NullKernel final : public Kernel {
public:
  NullKernel(std::string name, uint32_t parameters)
      : kernelName(std::move(name)), count(parameters) {}
  const std::string &name() const override { return kernelName; }
  uint32_t parameters() const override { return count; }

private:
  std::string kernelName;
  uint32_t count;
};

/// Its code is text: the names of its kernels, separated by white space.
class NullModule final : public Module {
public:
  NullModule(std::span<const std::byte> code, std::string_view name)
      : symbols(reinterpret_cast<const char *>(code.data()), code.size()), moduleName(name) {}
  std::unique_ptr<Kernel> kernel(const std::string &symbol, const KernelShape &shape) override {
    std::string all = " " + symbols + " ";
    std::replace(all.begin(), all.end(), '\n', ' ');
    if (all.find(" " + symbol + " ") == std::string::npos)
      throw Error(fmt::format("code object {} has no kernel {}", moduleName, symbol), moduleName);
    return std::make_unique<NullKernel>(symbol, shape.parameters);
  }

private:
  std::string symbols, moduleName;
};

class NullEvent final : public Event {
public:
  bool done() const override { return true; }
  void wait() override {}
};

struct NullCopy {
  std::byte *to;
  const std::byte *from;
  uint64_t bytes;
};

class NullGraph final : public Graph {
public:
  explicit NullGraph(NullDevice &device) : device(device) {}

  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override {
    add({"launch", std::string(label), grid, {parameters.begin(), parameters.end()}}, {});
    checkParameters(kernel, parameters.size(), label);
    device.counters().launchesBuilt++;
  }
  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset, uint64_t bytes,
            std::string_view label) override {
    checkRange(toOffset, bytes, to.size(), label);
    checkRange(fromOffset, bytes, from.size(), label);
    add({"copy", std::string(label), {}, {}},
        {to.host() + toOffset, from.host() + fromOffset, bytes});
  }
  void instantiate() override {
    if (!ready)
      device.counters().graphsPrepared++;
    ready = true;
  }
  size_t nodes() const override { return list.size(); }
  const std::string &label(size_t node) const override { return list.at(node).record.label; }

  void replay() {
    if (!ready)
      throw Error("a graph must be instantiated before it is replayed", "null driver");
    device.execute({"replay", "", {}, {}});
    for (const Node &node : list) {
      if (node.copy.bytes)
        std::memmove(node.copy.to, node.copy.from, node.copy.bytes);
      device.execute(node.record);
    }
    device.counters().replays++;
  }

private:
  struct Node {
    NullRecord record;
    NullCopy copy;
  };
  void add(NullRecord record, NullCopy copy) {
    if (ready)
      throw Error(fmt::format("{} comes after the graph was instantiated", record.label),
                  record.label);
    list.push_back({std::move(record), copy});
  }

  NullDevice &device;
  std::vector<Node> list;
  bool ready = false;
};

class NullStream final : public Stream {
public:
  explicit NullStream(NullDevice &device) : device(device) {}
  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override {
    checkParameters(kernel, parameters.size(), label);
    device.counters().launchesBuilt++;
    device.execute({"launch", std::string(label), grid, {parameters.begin(), parameters.end()}});
  }
  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
            uint64_t bytes) override {
    checkRange(toOffset, bytes, to.size(), "copy");
    checkRange(fromOffset, bytes, from.size(), "copy");
    std::memmove(to.host() + toOffset, from.host() + fromOffset, bytes);
    device.execute({"copy", "", {}, {}});
  }
  void fill(Buffer &to, uint64_t offset, uint64_t bytes, uint8_t value) override {
    checkRange(offset, bytes, to.size(), "fill");
    std::memset(to.host() + offset, value, bytes);
    device.execute({"fill", "", {}, {}});
  }
  void write(Buffer &to, uint64_t offset, std::span<const std::byte> from) override {
    checkRange(offset, from.size(), to.size(), "write");
    std::copy(from.begin(), from.end(), to.host() + offset);
    device.execute({"write", "", {}, {}});
  }
  void read(const Buffer &from, uint64_t offset, std::span<std::byte> to) override {
    checkRange(offset, to.size(), from.size(), "read");
    std::copy_n(from.host() + offset, to.size(), to.begin());
    device.counters().hostReads++;
    device.execute({"read", "", {}, {}});
  }
  void record(Event &) override {}
  void wait(const Event &) override {}
  void replay(Graph &graph) override { static_cast<NullGraph &>(graph).replay(); }
  void replayTimed(Graph &graph, std::span<double> seconds) override {
    std::fill(seconds.begin(), seconds.end(), 0.0);
    replay(graph);
    synchronize();
  }
  void synchronize() override {
    device.execute({"synchronize", "", {}, {}});
    device.reportFailure();
  }

private:
  NullDevice &device;
};

} // namespace

NullDevice::NullDevice(std::vector<std::string> features, uint64_t memoryBytes) {
  std::sort(features.begin(), features.end());
  description = {"null", "null device", std::move(features), 1, memoryBytes};
}

std::unique_ptr<Buffer> NullDevice::allocate(uint64_t bytes, MemoryKind, std::string_view what) {
  if (bytes > availableBytes())
    throw Error(fmt::format("no memory for {}", what), std::string(what),
                fmt::format("{} bytes, {} are free", bytes, availableBytes()));
  return std::make_unique<NullBuffer>(counts, bytes);
}

std::unique_ptr<Module> NullDevice::load(std::span<const std::byte> code, std::string_view name) {
  return std::make_unique<NullModule>(code, name);
}

std::unique_ptr<Stream> NullDevice::createStream() { return std::make_unique<NullStream>(*this); }
std::unique_ptr<Event> NullDevice::createEvent() { return std::make_unique<NullEvent>(); }
std::unique_ptr<Graph> NullDevice::createGraph() { return std::make_unique<NullGraph>(*this); }

uint64_t NullDevice::availableBytes() const {
  return description.memoryBytes -
         std::min<uint64_t>(description.memoryBytes, counts.allocatedBytes);
}

void NullDevice::execute(NullRecord record) {
  if (record.what == "launch") {
    counts.kernelsLaunched++;
    if (!failing.empty() && record.label == failing)
      failed = std::exchange(failing, "");
  }
  log.push_back(std::move(record));
}

void NullDevice::reportFailure() {
  if (std::string label = std::exchange(failed, ""); !label.empty())
    throw Error(fmt::format("launch {} failed", label), label, "the test asked for it");
}

} // namespace m3c::hal
