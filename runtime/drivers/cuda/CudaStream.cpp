// Streams: work in order on the device, and the names of what may have failed.
#include "runtime/drivers/cuda/CudaGraph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace m3c::hal::cuda {

namespace {

/// The last things that were started since the stream was known to be idle. A fault on the device
/// is reported by a later call; these are the candidates.
class Recent {
public:
  void add(std::string_view text) { texts[count++ % texts.size()].assign(text); }
  void clear() { count = 0; }
  std::string list() const {
    std::string out;
    size_t first = count > texts.size() ? count - texts.size() : 0;
    if (first > 0)
      out = fmt::format("{} earlier ones; ", first);
    for (size_t i = first; i < count; ++i)
      out += (i == first ? "" : "; ") + texts[i % texts.size()];
    return out;
  }

private:
  std::array<std::string, 16> texts; ///< their memory is reused
  size_t count = 0;
};

class CudaStream final : public Stream {
public:
  explicit CudaStream(CudaDevice &device) : device(device) {
    device.check(device.call().cuStreamCreate(&handle, StreamNonBlocking), "cuStreamCreate",
                 "making a stream");
  }
  ~CudaStream() override { device.call().cuStreamDestroy_v2(handle); }

  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override {
    scratch.set(static_cast<const CudaKernel &>(kernel), grid, parameters, label);
    device.counters().launchesBuilt++;
    run(scratch);
  }

  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
            uint64_t bytes) override {
    run(copyRecord(to, toOffset, from, fromOffset, bytes, "copy"));
  }

  void fill(Buffer &to, uint64_t offset, uint64_t bytes, uint8_t value) override {
    checkRange(offset, bytes, to.size(), "fill");
    if (bytes == 0)
      return;
    started(device.call().cuMemsetD8Async(to.address() + offset, value, bytes, handle),
            "cuMemsetD8Async", "fill");
  }

  void write(Buffer &to, uint64_t offset, std::span<const std::byte> from) override {
    checkRange(offset, from.size(), to.size(), "write");
    if (from.empty())
      return;
    started(
        device.call().cuMemcpyHtoDAsync_v2(to.address() + offset, from.data(), from.size(), handle),
        "cuMemcpyHtoDAsync", "write");
    synchronize(); // `from` may be pinned memory, which is read while the copy runs
  }

  void read(const Buffer &from, uint64_t offset, std::span<std::byte> to) override {
    checkRange(offset, to.size(), from.size(), "read");
    device.counters().hostReads++;
    if (to.empty())
      return;
    started(
        device.call().cuMemcpyDtoHAsync_v2(to.data(), from.address() + offset, to.size(), handle),
        "cuMemcpyDtoHAsync", "read");
    synchronize();
  }

  void record(Event &event) override {
    device.check(device.call().cuEventRecord(static_cast<CudaEvent &>(event).get(), handle),
                 "cuEventRecord", "recording an event");
  }
  void wait(const Event &event) override {
    device.check(
        device.call().cuStreamWaitEvent(handle, static_cast<const CudaEvent &>(event).get(), 0),
        "cuStreamWaitEvent", "waiting for an event");
  }

  void replay(Graph &given) override {
    CudaGraph &graph = static_cast<CudaGraph &>(given);
    GraphExec exec = graph.ready();
    if (device.checksLaunches())
      runEach(graph);
    else
      started(device.call().cuGraphLaunch(exec, handle), "cuGraphLaunch", graph.text());
    count(graph);
  }

  void replayTimed(Graph &given, std::span<double> seconds) override {
    CudaGraph &graph = static_cast<CudaGraph &>(given);
    if (seconds.size() < graph.nodes())
      throw Error("a timed replay needs one time for each node", "cuda driver");
    started(device.call().cuGraphLaunch(graph.timed(), handle), "cuGraphLaunch", graph.text());
    synchronize();
    graph.times(seconds);
    count(graph);
  }

  void synchronize() override {
    Result result = device.call().cuStreamSynchronize(handle);
    if (result != Success)
      failFault(result, "cuStreamSynchronize");
    recent.clear();
  }

private:
  void count(const CudaGraph &graph) {
    device.counters().replays++;
    device.counters().kernelsLaunched += graph.launches();
  }

  void run(const LaunchRecord &launch) {
    if (!launch.isEmpty()) {
      started(launch.launch(device, handle, device.checksLaunches()), "cuLaunchKernelEx",
              launch.text());
      if (device.checksLaunches())
        waitFor(launch.text());
    }
    device.counters().kernelsLaunched++;
  }

  void run(const CopyRecord &copy) {
    if (copy.bytes == 0)
      return;
    started(device.call().cuMemcpyAsync(copy.to, copy.from, copy.bytes, handle), "cuMemcpyAsync",
            copy.label);
    if (device.checksLaunches())
      waitFor("copy " + copy.label);
  }

  void runEach(const CudaGraph &graph) {
    for (const CudaGraph::Record &record : graph.recorded())
      if (const auto *launch = std::get_if<LaunchRecord>(&record)) {
        run(*launch);
        device.counters().kernelsLaunched--; // `count` adds the graph's
      } else {
        run(std::get<CopyRecord>(record));
      }
  }

  void started(Result result, const char *function, std::string_view what) {
    if (result != Success)
      failFault(result, function, what);
    recent.add(what);
  }

  void waitFor(const std::string &what) {
    Result result = device.call().cuStreamSynchronize(handle);
    if (result != Success)
      throw Error(fmt::format("launch {} failed", what), device.info().name,
                  fmt::format("cuStreamSynchronize: {}", device.api().text(result)),
                  "start the program again; under compute-sanitizer it shows the address and the "
                  "thread");
    recent.clear();
  }

  /// The call may have refused `refused` itself, but it may also report what failed before it.
  [[noreturn]] void failFault(Result result, const char *function, std::string_view refused = "") {
    std::string earlier = recent.list();
    recent.clear();
    std::string why = fmt::format("{}: {}", function, device.api().text(result));
    if (!earlier.empty())
      why += "; started before, and not known to have ended well: " + earlier;
    throw Error(refused.empty() ? "a launch failed on the GPU"
                                : fmt::format("{} could not be started", refused),
                device.info().name, why, Library::remedy(result));
  }

  CudaDevice &device;
  StreamHandle handle = nullptr;
  LaunchRecord scratch;
  Recent recent;
};

} // namespace

std::unique_ptr<Stream> createCudaStream(CudaDevice &device) {
  return std::make_unique<CudaStream>(device);
}

} // namespace m3c::hal::cuda
