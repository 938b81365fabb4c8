// The HAL over libm3emu. Work on a stream is done before the call returns; a fault of a kernel is
// thrown by the launch that has it.
#include "runtime/base/Error.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"
#include "runtime/drivers/host/HostDriver.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>

namespace m3c::hal {

namespace {

using emulator::Api;

/// Collects what a call of the library reports.
class Reporter {
public:
  const emulator::Report &report() const { return callbacks; }
  [[noreturn]] void raise() const {
    throw error ? *error : Error("the emulator failed", "libm3emu");
  }

private:
  std::optional<Error> error;
  emulator::Report callbacks = {
      this, [](void *self, const char *what, const char *where, const char *why, const char *next) {
        static_cast<Reporter *>(self)->error.emplace(what, where, why, next);
      }};
};

class EmulatedDevice;

class EmulatedBuffer final : public Buffer {
public:
  EmulatedBuffer(EmulatedDevice &device, uint64_t bytes, MemoryKind kind, std::string_view what);
  ~EmulatedBuffer() override;
  uint64_t size() const override { return length; }
  uint64_t address() const override { return reinterpret_cast<uint64_t>(data); }
  /// As on a GPU, the CPU does not reach the device's memory.
  std::byte *host() override { return isHost ? data : nullptr; }
  std::byte *bytes() const { return data; }

private:
  EmulatedDevice &device;
  uint64_t length;
  bool isHost;
  std::byte *data = nullptr;
};

class EmulatedKernel final : public Kernel {
public:
  EmulatedKernel(EmulatedDevice &device, std::string name, emulator::Program *program,
                 uint32_t count)
      : device(device), kernelName(std::move(name)), loaded(program), count(count) {}
  ~EmulatedKernel() override;
  const std::string &name() const override { return kernelName; }
  uint32_t parameters() const override { return count; }
  emulator::Program *program() const { return loaded; }

private:
  EmulatedDevice &device;
  std::string kernelName;
  emulator::Program *loaded;
  uint32_t count;
};

/// "Code" of an emulated device is the source, as JSON.
class EmulatedModule final : public Module {
public:
  EmulatedModule(EmulatedDevice &device, std::span<const std::byte> code, std::string_view name);
  std::unique_ptr<Kernel> kernel(const std::string &symbol, const KernelShape &shape) override;

private:
  EmulatedDevice &device;
  std::string moduleName, text;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// A kernel of the CPU, over memory of the emulator.
class CpuKernel final : public Kernel {
public:
  explicit CpuKernel(std::unique_ptr<Kernel> kernel) : kernel(std::move(kernel)) {}
  const std::string &name() const override { return kernel->name(); }
  uint32_t parameters() const override { return kernel->parameters(); }
  const Kernel &own() const { return *kernel; }

private:
  std::unique_ptr<Kernel> kernel;
};

class CpuModule final : public Module {
public:
  explicit CpuModule(std::unique_ptr<Module> module) : module(std::move(module)) {}
  std::unique_ptr<Kernel> kernel(const std::string &symbol, const KernelShape &shape) override {
    return std::make_unique<CpuKernel>(module->kernel(symbol, shape));
  }

private:
  std::unique_ptr<Module> module;
};

class EmulatedEvent final : public Event {
public:
  bool done() const override { return true; }
  void wait() override {}
};

struct LaunchNode {
  emulator::Program *program; ///< null: `cpu` runs instead
  const Kernel *cpu;
  Grid grid;
  std::vector<uint64_t> values;
};
struct CopyNode {
  std::byte *to;
  const std::byte *from;
  uint64_t bytes;
};

class EmulatedDevice final : public Device {
public:
  EmulatedDevice(const Api &api, const EmulationOptions &options)
      : api(api), cpuOptions{.threads = options.threads, .pin = false} {
    Reporter reporter;
    library = api.open({options.target.c_str(), options.seed, options.threads}, reporter.report());
    if (!library)
      reporter.raise();
    description.driver = "emulator";
    description.name = fmt::format("emulated {}, seed {}", options.target, options.seed);
    description.workers = options.threads;
    description.memoryBytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  }
  ~EmulatedDevice() override { api.close(library); }

  const DeviceInfo &info() const override { return description; }
  std::unique_ptr<Buffer> allocate(uint64_t bytes, MemoryKind kind,
                                   std::string_view what) override {
    return std::make_unique<EmulatedBuffer>(*this, bytes, kind, what);
  }
  std::unique_ptr<Module> load(std::span<const std::byte> code, std::string_view name) override {
    return std::make_unique<EmulatedModule>(*this, code, name);
  }
  std::unique_ptr<Module> loadFallback(std::span<const std::byte> code,
                                       std::string_view name) override {
    if (!cpu) {
      cpu = createHostDriver()->open(0, cpuOptions);
      cpuStream = cpu->createStream();
    }
    return std::make_unique<CpuModule>(cpu->load(code, name));
  }
  std::vector<std::byte> build(const SourceText &source, const std::string &) const override {
    nlohmann::json all = {{"text", source.text}, {"headers", source.headers}};
    std::string text = all.dump();
    auto *begin = reinterpret_cast<const std::byte *>(text.data());
    return {begin, begin + text.size()};
  }
  std::unique_ptr<Stream> createStream() override;
  std::unique_ptr<Event> createEvent() override { return std::make_unique<EmulatedEvent>(); }
  std::unique_ptr<Graph> createGraph() override;
  Counters &counters() override { return counts; }
  uint64_t availableBytes() const override {
    return uint64_t(sysconf(_SC_AVPHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  }
  DeviceLimits measureLimits() override { return {}; }

  void prepare(const std::vector<emulator::Program *> &programs) {
    Reporter reporter;
    if (!api.prepare(library, programs.data(), uint32_t(programs.size()), reporter.report()))
      reporter.raise();
  }
  void run(const LaunchNode &node, const std::string &label) {
    counts.kernelsLaunched++;
    if (node.cpu) {
      auto begun = std::chrono::steady_clock::now();
      cpuStream->launch(*node.cpu, node.grid, node.values, label);
      std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      cpuSeconds += took.count();
      return;
    }
    Reporter reporter;
    emulator::Launch launch = {
        node.program, {node.grid.x, node.grid.y, node.grid.z}, node.values.data(), label.c_str()};
    if (!api.launch(library, launch, reporter.report()))
      reporter.raise();
  }
  /// In kernels, emulated ones and the CPU's.
  double kernelSeconds() const { return api.counts(library).kernelSeconds + cpuSeconds; }
  LaunchNode nodeOf(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
                    std::string_view label) {
    checkParameters(kernel, parameters.size(), label);
    counts.launchesBuilt++;
    LaunchNode node = {nullptr, nullptr, grid, {parameters.begin(), parameters.end()}};
    if (auto *ofCpu = dynamic_cast<const CpuKernel *>(&kernel))
      node.cpu = &ofCpu->own();
    else
      node.program = static_cast<const EmulatedKernel &>(kernel).program();
    return node;
  }

  const Api &api;
  emulator::Emulator *library = nullptr;
  DeviceInfo description;
  Counters counts;
  DeviceOptions cpuOptions;
  std::unique_ptr<Device> cpu; ///< once a kernel of it was loaded
  std::unique_ptr<Stream> cpuStream;
  double cpuSeconds = 0;
};

EmulatedBuffer::EmulatedBuffer(EmulatedDevice &device, uint64_t bytes, MemoryKind kind,
                               std::string_view what)
    : device(device), length(bytes), isHost(kind == MemoryKind::Host) {
  Reporter reporter;
  data = static_cast<std::byte *>(
      device.api.allocate(device.library, bytes, std::string(what).c_str(), reporter.report()));
  if (!data)
    reporter.raise();
  device.counts.allocations++;
  uint64_t alive = device.counts.allocatedBytes += length;
  if (alive > device.counts.peakBytes)
    device.counts.peakBytes = alive;
}

EmulatedBuffer::~EmulatedBuffer() {
  device.api.release(device.library, data);
  device.counts.allocatedBytes -= length;
}

EmulatedKernel::~EmulatedKernel() { device.api.unload(device.library, loaded); }

EmulatedModule::EmulatedModule(EmulatedDevice &device, std::span<const std::byte> code,
                               std::string_view name)
    : device(device), moduleName(name) {
  auto *begin = reinterpret_cast<const char *>(code.data());
  nlohmann::json all = nlohmann::json::parse(begin, begin + code.size(), nullptr, false);
  if (!all.is_object() || !all.contains("text") || !all.contains("headers"))
    throw Error(fmt::format("cannot load code object {}", name), moduleName,
                "an emulated device runs kernels from their sources, and this is code",
                "compile again with `m3c compile --keep-sources`, and name the target with "
                "--emulate");
  text = all["text"];
  headers = all["headers"].get<decltype(headers)>();
}

std::unique_ptr<Kernel> EmulatedModule::kernel(const std::string &symbol,
                                               const KernelShape &shape) {
  if (text.find(" " + symbol + "(") == std::string::npos)
    throw Error(fmt::format("code object {} has no kernel {}", moduleName, symbol), moduleName,
                "its text does not define it", "make the plan again with `m3c compile`");
  std::vector<emulator::Text> texts;
  for (const auto &[name, header] : headers)
    texts.push_back({name.c_str(), header.c_str()});
  Reporter reporter;
  emulator::Program *program =
      device.api.load(device.library,
                      {symbol.c_str(), text.c_str(), texts.data(), uint32_t(texts.size()),
                       shape.threads, shape.cluster, shape.sharedBytes, shape.parameters},
                      reporter.report());
  if (!program)
    reporter.raise();
  return std::make_unique<EmulatedKernel>(device, symbol, program, shape.parameters);
}

CopyNode copyNode(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
                  uint64_t bytes, std::string_view label) {
  checkRange(toOffset, bytes, to.size(), label);
  checkRange(fromOffset, bytes, from.size(), label);
  return {static_cast<EmulatedBuffer &>(to).bytes() + toOffset,
          static_cast<const EmulatedBuffer &>(from).bytes() + fromOffset, bytes};
}

class EmulatedGraph final : public Graph {
public:
  explicit EmulatedGraph(EmulatedDevice &device) : device(device) {}

  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override {
    needOpen(label);
    list.push_back({std::string(label), device.nodeOf(kernel, grid, parameters, label), {}});
  }
  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset, uint64_t bytes,
            std::string_view label) override {
    needOpen(label);
    list.push_back(
        {std::string(label), {}, copyNode(to, toOffset, from, fromOffset, bytes, label)});
  }
  void instantiate() override {
    if (ready)
      return;
    std::vector<emulator::Program *> programs;
    for (const Node &node : list)
      if (node.launch && node.launch->program &&
          !std::ranges::count(programs, node.launch->program))
        programs.push_back(node.launch->program);
    device.prepare(programs);
    device.counters().graphsPrepared++;
    ready = true;
  }
  size_t nodes() const override { return list.size(); }
  const std::string &label(size_t node) const override { return list.at(node).label; }

  void replay(double *seconds) {
    if (!ready)
      throw Error("a graph must be instantiated before it is replayed", "emulator driver");
    for (const Node &node : list) {
      double before = device.kernelSeconds();
      if (node.launch)
        device.run(*node.launch, node.label);
      else if (node.copy.bytes)
        std::memmove(node.copy.to, node.copy.from, node.copy.bytes);
      if (seconds)
        *seconds++ = device.kernelSeconds() - before;
    }
    device.counters().replays++;
  }

private:
  struct Node {
    std::string label;
    std::optional<LaunchNode> launch;
    CopyNode copy;
  };
  void needOpen(std::string_view label) const {
    if (ready)
      throw Error(fmt::format("{} comes after the graph was instantiated", label),
                  std::string(label));
  }

  EmulatedDevice &device;
  std::vector<Node> list;
  bool ready = false;
};

class EmulatedStream final : public Stream {
public:
  explicit EmulatedStream(EmulatedDevice &device) : device(device) {}

  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override {
    device.run(device.nodeOf(kernel, grid, parameters, label), std::string(label));
  }
  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
            uint64_t bytes) override {
    CopyNode node = copyNode(to, toOffset, from, fromOffset, bytes, "copy");
    std::memmove(node.to, node.from, node.bytes);
  }
  void fill(Buffer &to, uint64_t offset, uint64_t bytes, uint8_t value) override {
    checkRange(offset, bytes, to.size(), "fill");
    std::memset(static_cast<EmulatedBuffer &>(to).bytes() + offset, value, bytes);
  }
  void write(Buffer &to, uint64_t offset, std::span<const std::byte> from) override {
    checkRange(offset, from.size(), to.size(), "write");
    std::ranges::copy(from, static_cast<EmulatedBuffer &>(to).bytes() + offset);
  }
  void read(const Buffer &from, uint64_t offset, std::span<std::byte> to) override {
    checkRange(offset, to.size(), from.size(), "read");
    device.counters().hostReads++;
    std::copy_n(static_cast<const EmulatedBuffer &>(from).bytes() + offset, to.size(), to.begin());
  }
  void record(Event &) override {}
  void wait(const Event &) override {}
  void replay(Graph &graph) override { static_cast<EmulatedGraph &>(graph).replay(nullptr); }
  void replayTimed(Graph &graph, std::span<double> seconds) override {
    if (seconds.size() < graph.nodes())
      throw Error("a timed replay needs one time for each node", "emulator driver");
    static_cast<EmulatedGraph &>(graph).replay(seconds.data());
  }
  void synchronize() override {}

private:
  EmulatedDevice &device;
};

std::unique_ptr<Stream> EmulatedDevice::createStream() {
  return std::make_unique<EmulatedStream>(*this);
}
std::unique_ptr<Graph> EmulatedDevice::createGraph() {
  return std::make_unique<EmulatedGraph>(*this);
}

} // namespace

std::unique_ptr<Device> openEmulatedDevice(const emulator::Api &api,
                                           const EmulationOptions &options) {
  return std::make_unique<EmulatedDevice>(api, options);
}

std::string emulationSummary(const Device &device) {
  auto *emulated = dynamic_cast<const EmulatedDevice *>(&device);
  if (!emulated)
    return "";
  emulator::Counts counts = emulated->api.counts(emulated->library);
  std::string others;
  if (uint64_t ofCpu = emulated->counts.kernelsLaunched - counts.launches)
    others =
        fmt::format("; {} launches of the CPU's kernels, {:.1f} s", ofCpu, emulated->cpuSeconds);
  double rate = counts.kernelSeconds ? double(counts.instructions) / counts.kernelSeconds : 0;
  return fmt::format(
      "{} launches, {} work items, {} threads, {} thread-instructions, {:.0f} million a second, "
      "{} meetings of lanes or warps, {} "
      "accesses of shared memory, {} copies; {:.1f} s in kernels, {:.1f} s compiling "
      "{} kernels ({} from the cache){}",
      counts.launches, counts.workItems, counts.threads, counts.instructions, rate / 1e6,
      counts.meetings, counts.sharedAccesses, counts.copies, counts.kernelSeconds,
      counts.compileSeconds, counts.compiled, counts.cached, others);
}

} // namespace m3c::hal
