#include "runtime/schedule/StepGraphs.h"

#include "runtime/base/Error.h"
#include "runtime/plan/Objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

namespace m3c {

namespace {

constexpr uint64_t arrayAlignment = 256; // bytes

// In memory the page table, which a step fills only in part, comes last.
constexpr plan::BatchArray arrayOrder[] = {
    plan::BatchArray::Counts,        plan::BatchArray::TokenIds,  plan::BatchArray::Positions,
    plan::BatchArray::SequenceOfRow, plan::BatchArray::LogitRows, plan::BatchArray::Counters,
    plan::BatchArray::PageTable};
static_assert(std::size(arrayOrder) == size_t(plan::BatchArray::MAX) + 1);

uint64_t elements(plan::BatchArray which, const plan::Target &target, const StepLimits &limits) {
  const plan::Bucket &largest = *target.buckets()->Get(target.buckets()->size() - 1);
  switch (which) {
  case plan::BatchArray::Counts:
    return 4;
  case plan::BatchArray::Counters:
    return plan::counters;
  case plan::BatchArray::PageTable:
    return uint64_t(limits.maxSequences) * limits.maxBlocks;
  default:
    return largest.rows();
  }
}

uint64_t alignedArray(plan::BatchArray which, const plan::Target &target,
                      const StepLimits &limits) {
  uint64_t bytes = 4 * elements(which, target, limits);
  return (bytes + arrayAlignment - 1) / arrayAlignment * arrayAlignment;
}

void copyBy(hal::Graph &graph, hal::Buffer &to, uint64_t toOffset, const hal::Buffer &from,
            uint64_t fromOffset, uint64_t bytes, std::string_view label) {
  graph.copy(to, toOffset, from, fromOffset, bytes, label);
}
void copyBy(hal::Stream &stream, hal::Buffer &to, uint64_t toOffset, const hal::Buffer &from,
            uint64_t fromOffset, uint64_t bytes, std::string_view) {
  stream.copy(to, toOffset, from, fromOffset, bytes);
}

} // namespace

hal::Grid gridOf(const plan::Launch &launch, uint32_t blocks) {
  auto along = [&](const plan::GridDim *dim) { return uint32_t(plan::itemsAlong(*dim, blocks)); };
  return {along(launch.grid_x()), along(launch.grid_y()), along(launch.grid_z())};
}

uint64_t StepGraphs::arenaBytes(const plan::Target &target, const StepLimits &limits) {
  uint64_t bytes = 0;
  for (const plan::Bucket *bucket : plan::list(target.buckets()))
    bytes =
        std::max(bytes, bucket->arena_bytes() + bucket->arena_bytes_per_block() * limits.maxBlocks);
  return bytes;
}

uint64_t StepGraphs::arrayBytes(const plan::Target &target, const StepLimits &limits) {
  uint64_t bytes = 0;
  for (plan::BatchArray which : arrayOrder)
    bytes += alignedArray(which, target, limits);
  return bytes;
}

StepGraphs::StepGraphs(const Engine &engine, hal::Buffer &pages, const StepLimits &limits)
    : engine(engine), pages(pages), limits(limits) {
  const plan::Target &target = engine.target();
  arena = engine.device().allocate(arenaBytes(target, limits), hal::MemoryKind::Device,
                                   "the arena of activations");
  arrays = engine.device().allocate(arrayBytes(target, limits), hal::MemoryKind::Host,
                                    "the step arrays");
  // Kernels that read the CPU's memory would fetch every element over the bus, many times.
  if (!arena->host())
    deviceArrays = engine.device().allocate(arrays->size(), hal::MemoryKind::Device,
                                            "the step arrays on the device");
  uint64_t seenFrom = deviceArrays ? deviceArrays->address() : arrays->address(), offset = 0;
  for (plan::BatchArray which : arrayOrder) {
    hostArrays[size_t(which)] = reinterpret_cast<int32_t *>(arrays->host() + offset);
    arrayAddresses[size_t(which)] = seenFrom + offset;
    pageTableOffset = offset; // the last one
    offset += alignedArray(which, target, limits);
  }
  graphs.resize(size_t(target.buckets()->size()) * 32 * 2);
  if (!arena->host())
    staging.resize(engine.tables().model()->vocab());
}

void StepGraphs::checkBlocks(uint32_t blocks) const {
  if (!std::has_single_bit(blocks) || blocks > limits.maxBlocks)
    throw Error(fmt::format("no graph for {} blocks", blocks), "session",
                fmt::format("a power of two up to {} is needed", limits.maxBlocks),
                "make the session for more tokens (maxTokens), or round the blocks up");
}

hal::Graph &StepGraphs::graph(uint32_t bucket, uint32_t blocks, bool traced) {
  checkBlocks(blocks);
  size_t index = (size_t(bucket) * 32 + size_t(std::countr_zero(blocks))) * 2 + traced;
  std::unique_ptr<hal::Graph> &slot = graphs.at(index);
  if (!slot)
    slot = record(engine.bucket(bucket), blocks, traced);
  return *slot;
}

std::unique_ptr<hal::Graph> StepGraphs::record(const plan::Bucket &bucket, uint32_t blocks,
                                               bool traced) {
  auto begun = std::chrono::steady_clock::now();
  std::unique_ptr<hal::Graph> graph = engine.device().createGraph();
  emit(*graph, bucket, blocks, plan::list(bucket.launches()).size(), traced);
  graph->instantiate();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  if (recorded)
    recorded(bucket.rows(), blocks, graph->nodes(), took.count());
  return graph;
}

void StepGraphs::start(hal::Stream &stream, uint32_t bucket, uint32_t blocks, bool traced) {
  checkBlocks(blocks);
  const plan::Bucket &entry = engine.bucket(bucket);
  emit(stream, entry, blocks, plan::list(entry.launches()).size(), traced);
}

std::unique_ptr<hal::Graph> StepGraphs::leading(uint32_t bucket, uint32_t blocks, uint32_t count) {
  checkBlocks(blocks);
  std::unique_ptr<hal::Graph> graph = engine.device().createGraph();
  emit(*graph, engine.bucket(bucket), blocks, count, false);
  graph->instantiate();
  return graph;
}

std::unique_ptr<hal::Graph> StepGraphs::chain(uint32_t bucket, uint32_t blocks,
                                              std::span<const uint32_t> launches, uint32_t count) {
  checkBlocks(blocks);
  auto all = plan::list(engine.bucket(bucket).launches());
  const plan::Launch &last = *all[launches.back()];
  std::unique_ptr<hal::Graph> graph = engine.device().createGraph();
  for (uint32_t i = 0; i < count; ++i)
    emitLaunch(*graph, *all[launches[i % launches.size()]], last, blocks);
  graph->instantiate();
  return graph;
}

template <typename To>
void StepGraphs::emit(To &to, const plan::Bucket &bucket, uint32_t blocks, uint32_t count,
                      bool traced) {
  if (traced && !trace)
    allocateTrace();
  if (deviceArrays)
    copyBy(to, *deviceArrays, 0, *arrays, 0, filledBytes(bucket, blocks), "step arrays");
  auto launches = plan::list(bucket.launches());
  for (uint32_t i = 0; i < count; ++i) {
    emitLaunch(to, *launches[i], *launches[i], blocks);
    if (traced)
      emitTaps(to, bucket, i);
  }
}

/// A step has no more sequences than rows, and each takes `blocks` entries of the page table.
uint64_t StepGraphs::filledBytes(const plan::Bucket &bucket, uint32_t blocks) const {
  uint64_t sequences = std::min(bucket.rows(), limits.maxSequences);
  return pageTableOffset + sequences * blocks * sizeof(int32_t);
}

template <typename To>
void StepGraphs::emitLaunch(To &to, const plan::Launch &launch, const plan::Launch &activations,
                            uint32_t blocks) {
  parameters.clear();
  auto args = plan::list(launch.args());
  for (uint32_t i = 0; i < args.size(); ++i)
    parameters.push_back(parameter(
        args[i]->kind() == plan::ArgKind::Arena ? *activations.args()->Get(i) : *args[i], blocks));
  const plan::Kernel &kernel = *engine.tables().kernels()->Get(launch.kernel());
  to.launch(engine.kernel(launch.kernel()), gridOf(launch, blocks), parameters,
            launch.label() ? launch.label()->string_view() : kernel.name()->string_view());
}

uint64_t StepGraphs::parameter(const plan::Arg &arg, uint32_t blocks) const {
  switch (arg.kind()) {
  case plan::ArgKind::Arena:
    return arena->address() + arg.offset() + arg.blocks_scale() * blocks;
  case plan::ArgKind::Weight:
    return engine.boundWeights().address(arg.index()) + arg.offset();
  case plan::ArgKind::CachePool:
    return pages.address() + arg.offset();
  case plan::ArgKind::Batch:
    return arrayAddresses[arg.index()];
  case plan::ArgKind::Scalar:
    return uint64_t(arg.value());
  }
  return 0; // checkTables lets no other kind through
}

template <typename To>
void StepGraphs::emitTaps(To &to, const plan::Bucket &bucket, uint32_t launch) {
  auto taps = plan::list(bucket.taps());
  for (uint32_t i = 0; i < taps.size(); ++i)
    if (taps[i]->after_launch() == launch)
      copyBy(to, *trace, tapOffset(bucket, i), *arena, taps[i]->offset(),
             bucket.rows() * taps[i]->row_bytes(), "trace");
}

uint64_t StepGraphs::tapOffset(const plan::Bucket &bucket, uint32_t tap) const {
  uint64_t offset = 0;
  for (uint32_t i = 0; i < tap; ++i)
    offset += bucket.rows() * bucket.taps()->Get(i)->row_bytes();
  return offset;
}

void StepGraphs::allocateTrace() {
  uint64_t bytes = 0;
  for (const plan::Bucket *bucket : plan::list(engine.target().buckets()))
    bytes = std::max(bytes, tapOffset(*bucket, plan::list(bucket->taps()).size()));
  trace = engine.device().allocate(bytes, hal::MemoryKind::Host, "the trace");
}

std::span<const float> StepGraphs::logits(uint32_t bucket, uint32_t row, hal::Stream &stream) {
  uint64_t vocab = engine.tables().model()->vocab();
  uint64_t offset = engine.bucket(bucket).logits_offset() + row * vocab * sizeof(float);
  if (arena->host())
    return {reinterpret_cast<const float *>(arena->host() + offset), size_t(vocab)};
  stream.read(*arena, offset, std::as_writable_bytes(std::span(staging)));
  return staging;
}

std::span<const std::byte> StepGraphs::tapRow(uint32_t bucket, uint32_t tap, uint32_t row) const {
  const plan::Bucket &entry = engine.bucket(bucket);
  uint64_t bytes = entry.taps()->Get(tap)->row_bytes();
  return {trace->host() + tapOffset(entry, tap) + row * bytes, size_t(bytes)};
}

} // namespace m3c
