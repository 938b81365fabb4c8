#include "runtime/drivers/cuda/CudaLaunch.h"

#include <fmt/format.h>

namespace m3c::hal::cuda {

namespace {

constexpr uint32_t mostX = 0x7fffffff, mostYz = 65535; // of a grid, in work items

void checkGrid(const Grid &grid, const KernelShape &shape, std::string_view label) {
  if (grid.x > mostX || grid.y > mostYz || grid.z > mostYz)
    throw Error(fmt::format("launch {} has too many work items", label), std::string(label),
                fmt::format("a grid of {} x {} x {}, at most {} x {} x {} are possible", grid.x,
                            grid.y, grid.z, mostX, mostYz, mostYz));
  if (grid.x % shape.cluster != 0)
    throw Error(fmt::format("launch {} has a broken cluster", label), std::string(label),
                fmt::format("{} work items along x are no multiple of the cluster's {}", grid.x,
                            shape.cluster),
                "this is a defect of m3c");
}

} // namespace

void LaunchRecord::set(const CudaKernel &kernel, Grid wanted, std::span<const uint64_t> parameters,
                       std::string_view label) {
  checkParameters(kernel, parameters.size(), label);
  checkGrid(wanted, kernel.shape(), label);
  function = kernel.function();
  shape = kernel.shape();
  kernelName = kernel.name();
  name = label;
  grid = wanted;
  values.assign(parameters.begin(), parameters.end());
  pointers.clear();
  for (uint64_t &value : values)
    pointers.push_back(&value);
}

std::string LaunchRecord::text() const {
  return fmt::format("{} (kernel {}, grid {} x {} x {}, {} threads, {} shared bytes{})", name,
                     kernelName, grid.x, grid.y, grid.z, shape.threads, shape.sharedBytes,
                     shape.cluster > 1 ? fmt::format(", clusters of {}", shape.cluster) : "");
}

Result LaunchRecord::launch(const CudaDevice &device, StreamHandle stream, bool alone) const {
  LaunchAttribute attributes[2] = {};
  LaunchConfig config = {
      grid.x, grid.y,     grid.z, shape.threads, 1, 1, unsigned(shape.sharedBytes),
      stream, attributes, 0};
  if (shape.cluster > 1) {
    LaunchAttribute &cluster = attributes[config.attributeCount++];
    cluster.id = LaunchCluster;
    cluster.value.cluster = {shape.cluster, 1, 1};
  }
  if (shape.overlaps && !alone) {
    LaunchAttribute &overlap = attributes[config.attributeCount++];
    overlap.id = LaunchProgrammaticSerialization;
    overlap.value.programmaticSerialization = 1;
  }
  auto parameters = const_cast<void **>(pointers.data());
  return device.call().cuLaunchKernelEx(&config, function, parameters, nullptr);
}

GraphNode LaunchRecord::add(const CudaDevice &device, GraphHandle graph, GraphNode before,
                            bool beforeIsKernel) const {
  KernelNodeParams params = {};
  params.function = function;
  params.gridX = grid.x;
  params.gridY = grid.y;
  params.gridZ = grid.z;
  params.blockX = shape.threads;
  params.blockY = params.blockZ = 1;
  params.sharedBytes = unsigned(shape.sharedBytes);
  params.parameters = const_cast<void **>(pointers.data());
  bool early = shape.overlaps && before && beforeIsKernel;
  GraphNode node = nullptr;
  device.check(
      device.call().cuGraphAddKernelNode_v2(&node, graph, &before, before && !early, &params),
      "cuGraphAddKernelNode", "recording " + text());
  if (early) {
    GraphEdge edge = {PortProgrammatic, 0, DependencyProgrammatic, {}};
    device.check(device.call().cuGraphAddDependencies_v2(graph, &before, &node, &edge, 1),
                 "cuGraphAddDependencies", "recording " + text());
  }
  if (shape.cluster > 1) {
    LaunchAttribute attribute = {};
    attribute.value.cluster = {shape.cluster, 1, 1};
    device.check(device.call().cuGraphKernelNodeSetAttribute(node, LaunchCluster, &attribute.value),
                 "cuGraphKernelNodeSetAttribute", "recording " + text());
  }
  return node;
}

CopyRecord copyRecord(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
                      uint64_t bytes, std::string_view label) {
  checkRange(toOffset, bytes, to.size(), label);
  checkRange(fromOffset, bytes, from.size(), label);
  return {to.address() + toOffset, from.address() + fromOffset, bytes, std::string(label)};
}

} // namespace m3c::hal::cuda
