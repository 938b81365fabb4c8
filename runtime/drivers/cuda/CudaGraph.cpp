#include "runtime/drivers/cuda/CudaGraph.h"

#include <fmt/format.h>

#include <map>

namespace m3c::hal::cuda {

namespace {

constexpr uint64_t mostCopied = 0x7fffffff; // bytes of one copy node, by the largest pitch

const std::string &labelOf(const CudaGraph::Record &record) {
  const auto *launch = std::get_if<LaunchRecord>(&record);
  return launch ? launch->label() : std::get<CopyRecord>(record).label;
}

std::string textOf(const CudaGraph::Record &record) {
  const auto *launch = std::get_if<LaunchRecord>(&record);
  return launch ? launch->text() : "copy " + std::get<CopyRecord>(record).label;
}

// A launch of nothing and a copy of nothing have no node.
bool isEmpty(const CudaGraph::Record &record) {
  const auto *launch = std::get_if<LaunchRecord>(&record);
  return launch ? launch->isEmpty() : std::get<CopyRecord>(record).bytes == 0;
}

CopyParams copyParams(const CopyRecord &copy) {
  CopyParams params = {};
  params.from.memoryType = params.to.memoryType = MemoryUnified;
  params.from.device = copy.from;
  params.to.device = copy.to;
  params.from.pitch = params.to.pitch = params.widthBytes = copy.bytes;
  params.from.height = params.to.height = params.height = params.depth = 1;
  return params;
}

} // namespace

CudaGraph::~CudaGraph() {
  destroy(plain);
  destroy(withTimes);
}

void CudaGraph::destroy(Built &built) {
  if (built.exec)
    device.call().cuGraphExecDestroy(built.exec);
  if (built.graph)
    device.call().cuGraphDestroy(built.graph);
  built = {};
}

CudaGraph::Record &CudaGraph::addRecord(std::string_view label) {
  if (plain.exec)
    throw Error(fmt::format("{} comes after the graph was instantiated", label),
                std::string(label));
  return records.emplace_back();
}

void CudaGraph::launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
                       std::string_view label) {
  LaunchRecord record;
  record.set(static_cast<const CudaKernel &>(kernel), grid, parameters, label);
  addRecord(label) = std::move(record);
  launchCount++;
  device.counters().launchesBuilt++;
}

void CudaGraph::copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
                     uint64_t bytes, std::string_view label) {
  if (bytes > mostCopied)
    throw Error(fmt::format("copy {} is too large for a graph", label), std::string(label),
                fmt::format("{} bytes, at most {} are possible", bytes, mostCopied));
  CopyRecord record = copyRecord(to, toOffset, from, fromOffset, bytes, label);
  addRecord(label) = std::move(record);
}

const std::string &CudaGraph::label(size_t node) const { return labelOf(records.at(node)); }

void CudaGraph::instantiate() {
  if (plain.exec)
    return;
  description = records.empty() ? "an empty graph"
                                : fmt::format("a graph of {} nodes, {} to {}", records.size(),
                                              labelOf(records.front()), labelOf(records.back()));
  plain = build(false);
  device.counters().graphsPrepared++;
}

GraphExec CudaGraph::ready() const {
  if (!plain.exec)
    throw Error("a graph must be instantiated before it is replayed", "cuda driver");
  return plain.exec;
}

GraphNode CudaGraph::addNode(GraphHandle graph, const Record &record, GraphNode before,
                             bool afterKernel) {
  if (const auto *launch = std::get_if<LaunchRecord>(&record))
    return launch->add(device, graph, before, afterKernel);
  CopyParams params = copyParams(std::get<CopyRecord>(record));
  GraphNode node = nullptr;
  device.check(device.call().cuGraphAddMemcpyNode(&node, graph, &before, before != nullptr, &params,
                                                  device.context()),
               "cuGraphAddMemcpyNode", "recording " + textOf(record));
  return node;
}

CudaGraph::Built CudaGraph::build(bool withEvents) {
  Built built;
  std::map<GraphNode, std::string> texts;
  GraphNode last = nullptr;
  bool afterKernel = false;
  auto addEvent = [&](size_t index) {
    GraphNode node = nullptr;
    device.check(device.call().cuGraphAddEventRecordNode(&node, built.graph, &last, last != nullptr,
                                                         events[index]->get()),
                 "cuGraphAddEventRecordNode", "recording a time");
    last = node;
    afterKernel = false;
  };
  try {
    device.check(device.call().cuGraphCreate(&built.graph, 0), "cuGraphCreate", "making a graph");
    if (withEvents)
      addEvent(0);
    for (size_t i = 0; i < records.size(); ++i) {
      if (!isEmpty(records[i])) {
        last = addNode(built.graph, records[i], last, afterKernel);
        afterKernel = std::holds_alternative<LaunchRecord>(records[i]);
        texts[last] = textOf(records[i]);
      }
      if (withEvents)
        addEvent(i + 1);
    }
    InstantiateParams params = {InstantiateUpload, device.serviceStream(), nullptr, 0};
    Result result = device.call().cuGraphInstantiateWithParams(&built.exec, built.graph, &params);
    auto failed = texts.find(params.failedNode);
    device.check(result, "cuGraphInstantiateWithParams",
                 failed == texts.end() ? description : failed->second);
    device.check(device.call().cuStreamSynchronize(device.serviceStream()), "cuStreamSynchronize",
                 "uploading " + description);
  } catch (...) {
    destroy(built);
    throw;
  }
  return built;
}

GraphExec CudaGraph::timed() {
  ready();
  if (!withTimes.exec) {
    while (events.size() < records.size() + 1)
      events.push_back(std::make_unique<CudaEvent>(device, EventTimed));
    withTimes = build(true);
  }
  return withTimes.exec;
}

void CudaGraph::times(std::span<double> seconds) const {
  for (size_t i = 0; i < records.size(); ++i) {
    float milliseconds = 0;
    device.check(
        device.call().cuEventElapsedTime(&milliseconds, events[i]->get(), events[i + 1]->get()),
        "cuEventElapsedTime", "timing " + textOf(records[i]));
    seconds[i] = double(milliseconds) / 1e3;
  }
}

std::unique_ptr<Graph> createCudaGraph(CudaDevice &device) {
  return std::make_unique<CudaGraph>(device);
}

} // namespace m3c::hal::cuda
