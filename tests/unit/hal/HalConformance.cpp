#include "tests/unit/hal/HalConformance.h"

#include "runtime/base/Error.h"

#include <algorithm>

using namespace m3c;
using namespace m3c::hal;
using namespace m3c::test;

TEST_P(Conformance, BuffersAreZeroAlignedAndCounted) {
  uint64_t before = device->counters().allocatedBytes;
  std::unique_ptr<Buffer> buffer = device->allocate(1000, MemoryKind::Device, "test");
  EXPECT_EQ(buffer->size(), 1000u);
  EXPECT_EQ(buffer->address() % 64, 0u);
  EXPECT_EQ(device->counters().allocatedBytes, before + 1000);
  for (float value : floats(*buffer, 250))
    EXPECT_EQ(value, 0);
  buffer.reset();
  EXPECT_EQ(device->counters().allocatedBytes, before);
  EXPECT_EQ(device->counters().allocations, 1u);
  EXPECT_NE(device->allocate(10, MemoryKind::Host, "test")->host(), nullptr);
}

TEST_P(Conformance, TransfersKeepTheirBytesAndCheckTheirRange) {
  std::unique_ptr<Buffer> a = device->allocate(64, MemoryKind::Device, "a");
  std::unique_ptr<Buffer> b = device->allocate(64, MemoryKind::Device, "b");
  std::vector<float> values = {1, 2, 3, 4};
  stream->write(*a, 16, std::as_bytes(std::span(values)));
  stream->copy(*b, 0, *a, 16, 16);
  stream->fill(*b, 8, 4, 0);
  EXPECT_EQ(floats(*b, 4), (std::vector<float>{1, 2, 0, 4}));
  EXPECT_THROW(stream->write(*a, 52, std::as_bytes(std::span(values))), Error);
  EXPECT_THROW(stream->copy(*b, UINT64_MAX, *a, 0, 8), Error);
  EXPECT_THROW(stream->read(*a, 56, std::as_writable_bytes(std::span(values))), Error);
  EXPECT_THROW(stream->fill(*a, 65, 0, 0), Error);
}

TEST_P(Conformance, ModulesFindKernelsAndNameWhatIsMissing) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  EXPECT_EQ(module->kernel("add_to", {2})->name(), "add_to");
  try {
    module->kernel("absent", {0});
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("absent"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("kernels"), std::string::npos);
  }
  // Two copies of one object are two modules.
  std::unique_ptr<Module> second = device->load(GetParam().code(), "again");
  module.reset();
  EXPECT_EQ(second->kernel("nothing", {0})->parameters(), 0u);
}

TEST_P(Conformance, LaunchNamesAWrongParameterCount) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("add_to", {2});
  uint64_t value = 1;
  std::unique_ptr<Graph> graph = device->createGraph();
  for (auto &launch : std::vector<std::function<void()>>{
           [&] { stream->launch(*kernel, {1, 1, 1}, {&value, 1}, "layers.3.norm"); },
           [&] { graph->launch(*kernel, {1, 1, 1}, {&value, 1}, "layers.3.norm"); }}) {
    try {
      launch();
      FAIL();
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find("layers.3.norm"), std::string::npos);
    }
  }
}

TEST_P(Conformance, EveryWorkItemRunsOnce) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("write_index", {3});
  constexpr uint32_t nx = 7, ny = 5, nz = 3;
  std::unique_ptr<Buffer> out = device->allocate(nx * ny * nz * 4, MemoryKind::Device, "out");
  std::vector<uint64_t> parameters = {out->address(), nx, ny};
  stream->launch(*kernel, {nx, ny, nz}, parameters, "index");
  std::vector<uint32_t> values(nx * ny * nz);
  stream->read(*out, 0, std::as_writable_bytes(std::span(values)));
  stream->synchronize();
  EXPECT_EQ(device->counters().kernelsLaunched, 1u);
  for (uint32_t i = 0; GetParam().computes && i < values.size(); ++i)
    EXPECT_EQ(values[i], 1 + i % nx + 100 * (i / nx % ny) + 10000 * (i / nx / ny));
}

TEST_P(Conformance, EmptyGridsAreLegal) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("add_to", {2});
  std::unique_ptr<Buffer> data = device->allocate(16, MemoryKind::Device, "data");
  std::vector<uint64_t> parameters = {data->address(), 5};
  for (Grid grid : {Grid{0, 1, 1}, Grid{4, 0, 1}, Grid{4, 1, 0}}) {
    stream->launch(*kernel, grid, parameters, "empty");
    std::unique_ptr<Graph> graph = device->createGraph();
    graph->launch(*kernel, grid, parameters, "empty");
    graph->instantiate();
    stream->replay(*graph);
  }
  EXPECT_EQ(floats(*data, 4), std::vector<float>(4, 0));
}

TEST_P(Conformance, SharedMemoryBelongsToOneItemAtATime) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("use_shared", {1, 4096});
  std::unique_ptr<Buffer> out = device->allocate(512 * 4, MemoryKind::Device, "out");
  uint64_t parameter = out->address();
  stream->launch(*kernel, {512, 1, 1}, {&parameter, 1}, "shared");
  std::vector<uint32_t> values(512);
  stream->read(*out, 0, std::as_writable_bytes(std::span(values)));
  stream->synchronize();
  for (uint32_t i = 0; GetParam().computes && i < values.size(); ++i)
    EXPECT_EQ(values[i], i * 1024);
}

TEST_P(Conformance, GraphsRunInOrderAndSeeChangedContents) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("add_to", {2});
  constexpr uint32_t count = 64;
  std::unique_ptr<Buffer> a = device->allocate(count * 4, MemoryKind::Device, "a");
  std::unique_ptr<Buffer> b = device->allocate(count * 4, MemoryKind::Device, "b");
  std::vector<uint64_t> parameters = {a->address(), 1};
  std::unique_ptr<Graph> graph = device->createGraph();
  for (int i = 0; i < 20; ++i) { // many items, one item, copies: all kinds of neighbours
    graph->launch(*kernel, {count, 1, 1}, parameters, "all");
    graph->launch(*kernel, {1, 1, 1}, parameters, "first");
    graph->launch(*kernel, {1, 1, 1}, parameters, "first again");
  }
  graph->copy(*b, 0, *a, 0, count * 4, "copy");
  graph->launch(*kernel, {count, 1, 1}, parameters, "last");
  EXPECT_THROW(stream->replay(*graph), Error);
  graph->instantiate();
  EXPECT_EQ(graph->nodes(), 62u);
  EXPECT_EQ(graph->label(60), "copy");
  EXPECT_THROW(graph->launch(*kernel, {1, 1, 1}, parameters, "late"), Error);

  uint64_t built = device->counters().launchesBuilt, allocations = device->counters().allocations;
  for (float start : {0.0f, 100.0f, -7.0f}) {
    std::vector<float> begin(count, start);
    stream->write(*a, 0, std::as_bytes(std::span(begin)));
    uint64_t reads = device->counters().hostReads;
    stream->replay(*graph);
    stream->synchronize();
    EXPECT_EQ(device->counters().hostReads, reads);
    std::vector<float> copied = floats(*b, count), final = floats(*a, count);
    if (!GetParam().computes)
      continue;
    EXPECT_EQ(copied[0], start + 60);
    EXPECT_EQ(copied[count - 1], start + 20);
    EXPECT_EQ(final[0], start + 61);
  }
  EXPECT_EQ(device->counters().launchesBuilt, built);
  EXPECT_EQ(device->counters().allocations, allocations);
  EXPECT_EQ(device->counters().replays, 3u);
  EXPECT_EQ(device->counters().graphsPrepared, 1u);
}

// As a step's arrays travel: the CPU fills memory of its own, a graph begins with the copy to the
// device, and nothing else changes from replay to replay.
TEST_P(Conformance, GraphsCopyWhatTheHostHasWrittenSince) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("add_to", {2});
  constexpr uint32_t count = 256;
  std::unique_ptr<Buffer> host = device->allocate(2 * count * 4, MemoryKind::Host, "host");
  std::unique_ptr<Buffer> data = device->allocate(count * 4, MemoryKind::Device, "data");
  auto *values = reinterpret_cast<float *>(host->host());
  ASSERT_TRUE(values);
  std::unique_ptr<Graph> graph = device->createGraph();
  std::vector<uint64_t> parameters = {data->address(), 3};
  graph->copy(*data, 0, *host, 0, count * 4, "to the device");
  graph->launch(*kernel, {count, 1, 1}, parameters, "add");
  graph->copy(*host, count * 4, *data, 0, count * 4, "and back");
  graph->instantiate();
  uint64_t allocations = device->counters().allocations, reads = device->counters().hostReads;
  for (float start : {1.0f, 50.0f, -2.0f}) {
    std::fill(values, values + count, start);
    stream->replay(*graph);
    stream->synchronize();
    float sum = start + (GetParam().computes ? 3 : 0);
    EXPECT_EQ(values[0], start);
    EXPECT_EQ(values[count], sum);
    EXPECT_EQ(values[2 * count - 1], sum);
  }
  EXPECT_EQ(device->counters().allocations, allocations);
  EXPECT_EQ(device->counters().hostReads, reads);
}

TEST_P(Conformance, TimedReplayGivesOneTimeANode) {
  std::unique_ptr<Module> module = device->load(GetParam().code(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("nothing", {0});
  std::unique_ptr<Graph> graph = device->createGraph();
  for (int i = 0; i < 3; ++i)
    graph->launch(*kernel, {4, 1, 1}, {}, "nothing");
  graph->instantiate();
  std::vector<double> seconds(3, -1);
  stream->replayTimed(*graph, seconds);
  for (double time : seconds)
    EXPECT_GE(time, 0);
}

TEST_P(Conformance, EventsHappenOnceTheStreamIsDone) {
  std::unique_ptr<Event> event = device->createEvent();
  EXPECT_TRUE(event->done());
  std::unique_ptr<Buffer> a = device->allocate(1 << 20, MemoryKind::Device, "a");
  stream->fill(*a, 0, 1 << 20, 1);
  stream->record(*event);
  std::unique_ptr<Stream> other = device->createStream();
  other->wait(*event);
  event->wait();
  EXPECT_TRUE(event->done());
}
