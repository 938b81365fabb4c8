// Streams and graphs of the host device. A recorded node is a ready parameter array; replaying is
// one call of the thread pool.
#include "runtime/base/Error.h"
#include "runtime/drivers/host/HostDevice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

namespace m3c::hal {

namespace {

/// One launch with everything that a worker needs.
struct LaunchNode {
  HostKernelFn function;
  const SharedArenas *shared;
  Grid grid;
  std::vector<uint64_t> values;
  std::vector<void *> pointers;
};

struct CopyNode {
  std::byte *to;
  const std::byte *from;
  uint64_t bytes;
};

void runLaunch(const void *context, uint64_t begin, uint64_t end, unsigned worker) {
  const LaunchNode &node = *static_cast<const LaunchNode *>(context);
  void *shared = node.shared->of(worker);
  for (uint64_t item = begin; item < end; ++item) {
    uint64_t rest = item / node.grid.x;
    node.function(node.pointers.data(), uint32_t(item % node.grid.x), uint32_t(rest % node.grid.y),
                  uint32_t(rest / node.grid.y), shared);
  }
}

void runCopy(const void *context, uint64_t, uint64_t, unsigned) {
  const CopyNode &node = *static_cast<const CopyNode *>(context);
  std::memmove(node.to, node.from, node.bytes);
}

void fillLaunch(LaunchNode &node, HostDevice &device, const Kernel &kernel, Grid grid,
                std::span<const uint64_t> parameters, std::string_view label) {
  checkParameters(kernel, parameters.size(), label);
  if (grid.items() > UINT32_MAX)
    throw Error(fmt::format("launch {} has too many work items", label), std::string(label),
                fmt::format("{}, at most 2^32 - 1 are possible", grid.items()));
  node.function = static_cast<const HostKernel &>(kernel).function();
  node.shared = &device.shared();
  node.grid = grid;
  node.values.assign(parameters.begin(), parameters.end());
  node.pointers.clear();
  for (uint64_t &value : node.values)
    node.pointers.push_back(&value);
  device.counters().launchesBuilt++;
}

CopyNode copyNode(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
                  uint64_t bytes, std::string_view label) {
  checkRange(toOffset, bytes, to.size(), label);
  checkRange(fromOffset, bytes, from.size(), label);
  return {to.host() + toOffset, from.host() + fromOffset, bytes};
}

class HostGraph final : public Graph {
public:
  explicit HostGraph(HostDevice &device) : device(device) {}

  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override {
    needOpen(label);
    LaunchNode &node = launches.emplace_back();
    fillLaunch(node, device, kernel, grid, parameters, label);
    jobs.push_back({runLaunch, &node, grid.items()});
    labels.emplace_back(label);
  }

  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset, uint64_t bytes,
            std::string_view label) override {
    needOpen(label);
    copies.push_back(copyNode(to, toOffset, from, fromOffset, bytes, label));
    jobs.push_back({runCopy, &copies.back(), 1});
    labels.emplace_back(label);
  }

  void instantiate() override {
    if (!ready)
      device.counters().graphsPrepared++;
    ready = true;
  }

  size_t nodes() const override { return jobs.size(); }
  const std::string &label(size_t node) const override { return labels.at(node); }

  void replay(double *seconds) {
    if (!ready)
      throw Error("a graph must be instantiated before it is replayed", "host driver");
    device.threads().run(jobs.data(), jobs.size(), seconds);
    device.counters().replays++;
    device.counters().kernelsLaunched += launches.size();
  }

private:
  void needOpen(std::string_view label) const {
    if (ready)
      throw Error(fmt::format("{} comes after the graph was instantiated", label),
                  std::string(label));
  }

  HostDevice &device;
  std::deque<LaunchNode> launches; // addresses stay
  std::deque<CopyNode> copies;
  std::vector<ThreadPool::Job> jobs;
  std::vector<std::string> labels;
  bool ready = false;
};

class HostStream final : public Stream {
public:
  explicit HostStream(HostDevice &device) : device(device) {}

  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override {
    fillLaunch(scratch, device, kernel, grid, parameters, label);
    ThreadPool::Job job{runLaunch, &scratch, grid.items()};
    device.threads().run(&job, 1);
    device.counters().kernelsLaunched++;
  }

  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
            uint64_t bytes) override {
    CopyNode node = copyNode(to, toOffset, from, fromOffset, bytes, "copy");
    runCopy(&node, 0, 1, 0);
  }

  void fill(Buffer &to, uint64_t offset, uint64_t bytes, uint8_t value) override {
    checkRange(offset, bytes, to.size(), "fill");
    std::memset(to.host() + offset, value, bytes);
  }

  void write(Buffer &to, uint64_t offset, std::span<const std::byte> from) override {
    checkRange(offset, from.size(), to.size(), "write");
    std::copy(from.begin(), from.end(), to.host() + offset);
  }

  void read(const Buffer &from, uint64_t offset, std::span<std::byte> to) override {
    checkRange(offset, to.size(), from.size(), "read");
    device.counters().hostReads++;
    std::copy_n(from.host() + offset, to.size(), to.begin());
  }

  void record(Event &) override {}
  void wait(const Event &) override {}
  void replay(Graph &graph) override { static_cast<HostGraph &>(graph).replay(nullptr); }
  void replayTimed(Graph &graph, std::span<double> seconds) override {
    if (seconds.size() < graph.nodes())
      throw Error("a timed replay needs one time for each node", "host driver");
    static_cast<HostGraph &>(graph).replay(seconds.data());
  }
  void synchronize() override {}

private:
  HostDevice &device;
  LaunchNode scratch;
};

} // namespace

std::unique_ptr<Stream> createHostStream(HostDevice &device) {
  return std::make_unique<HostStream>(device);
}

std::unique_ptr<Graph> createHostGraph(HostDevice &device) {
  return std::make_unique<HostGraph>(device);
}

} // namespace m3c::hal
