// The conformance suite on the first NVIDIA GPU, and what only a real one shows: faults that arrive
// late, launches that overlap, clusters, large memory. `device_test --help` lists GoogleTest's
// options; `--gtest_output=json:FILE` writes the results.
#include "runtime/base/Error.h"
#include "runtime/drivers/cuda/CudaDriver.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/weights/Staging.h"
#include "tests/unit/hal/HalConformance.h"
#include "tests/unit/runtime/WeightPlan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

using namespace m3c;
using namespace m3c::hal;
using namespace m3c::test;

namespace {

std::unique_ptr<Device> openGpu(bool checkLaunches = false) {
  DeviceOptions options;
  options.checkLaunches = checkLaunches;
  return createCudaDriver()->open(0, options);
}

std::vector<DriverUnderTest> drivers() {
  return {{"cuda", true, [] { return openGpu(); }, ptxTestKernels},
          {"cudaChecked", true, [] { return openGpu(true); }, ptxTestKernels}};
}

template <typename Work> std::string messageOf(Work work) {
  try {
    work();
  } catch (const Error &error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expectAll(const std::string &text, const std::vector<std::string> &parts) {
  for (const std::string &part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

std::span<const std::byte> bytesOf(const char *text) {
  return std::as_bytes(std::span(text, std::strlen(text)));
}

// For compute capability 9.0. slow_store(out, value): waits about a millisecond, stores value to
// out[0]; it lets the next launch begin at once. after_wait(out): begins early, waits for the
// launch before, and stores out[0] + 1 to out[1]. cluster_ranks(out): out[block] = its rank in the
// cluster.
constexpr const char *overlapText = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry slow_store(.param .u64 out, .param .u64 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<8>;
  griddepcontrol.launch_dependents;
  ld.param.u64 %d1, [out];
  ld.param.u64 %d2, [value];
  mov.u64 %d3, %globaltimer;
  add.u64 %d3, %d3, 1000000;
AGAIN:
  mov.u64 %d4, %globaltimer;
  setp.lt.u64 %p1, %d4, %d3;
  @%p1 bra AGAIN;
  st.global.u64 [%d1], %d2;
  ret;
}
.visible .entry after_wait(.param .u64 out)
{
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  griddepcontrol.wait;
  ld.global.u64 %d2, [%d1];
  add.u64 %d2, %d2, 1;
  st.global.u64 [%d1+8], %d2;
  ret;
}
.visible .entry no_wait(.param .u64 out)
{
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  mov.u64 %d2, %globaltimer;
  st.global.u64 [%d1+8], %d2;
  ret;
}
.visible .entry cluster_ranks(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %cluster_ctarank;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r2;
  ret;
}
)";

class Gpu : public testing::Test {
protected:
  std::unique_ptr<Device> device = openGpu();
  std::unique_ptr<Stream> stream = device->createStream();

  bool isHopperOrLater() const { return device->info().supports("sm_90a"); }

  template <typename T> std::vector<T> values(Buffer &buffer, size_t count) {
    std::vector<T> out(count);
    stream->read(buffer, 0, std::as_writable_bytes(std::span(out)));
    return out;
  }
};

} // namespace

INSTANTIATE_TEST_SUITE_P(Drivers, Conformance, testing::ValuesIn(drivers()),
                         [](const auto &info) { return info.param.name; });

TEST_F(Gpu, SaysWhatItIs) {
  const DeviceInfo &info = device->info();
  printf("%s, %u multiprocessors, %.1f GB, %s\n", info.name.c_str(), info.workers,
         double(info.memoryBytes) / 1e9, info.software.c_str());
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.workers, 0u);
  EXPECT_GT(info.memoryBytes, uint64_t(1) << 30);
  EXPECT_LE(device->availableBytes(), info.memoryBytes);
}

TEST_F(Gpu, LargeBuffersAreZeroToTheirLastByte) {
  for (uint64_t bytes : {(uint64_t(64) << 20) - 8, (uint64_t(64) << 20) + 8, uint64_t(5) << 30}) {
    uint64_t before = device->availableBytes();
    std::unique_ptr<Buffer> buffer = device->allocate(bytes, MemoryKind::Device, "large");
    EXPECT_LT(device->availableBytes(), before);
    uint64_t last = 1;
    stream->read(*buffer, bytes - 8, std::as_writable_bytes(std::span(&last, 1)));
    EXPECT_EQ(last, 0u) << bytes;
    stream->fill(*buffer, bytes - 8, 8, 0xff);
    stream->read(*buffer, bytes - 8, std::as_writable_bytes(std::span(&last, 1)));
    EXPECT_EQ(last, UINT64_MAX) << bytes;
  }
}

TEST_F(Gpu, MoreThanItsMemoryIsRefused) {
  uint64_t bytes = device->info().memoryBytes * 2;
  expectAll(messageOf([&] { device->allocate(bytes, MemoryKind::Device, "the KV cache"); }),
            {"no memory for the KV cache", std::to_string(bytes), "are free"});
  EXPECT_NO_THROW(device->allocate(1000, MemoryKind::Device, "small")); // nothing is broken
}

TEST_F(Gpu, HostMemoryIsSeenByKernels) {
  std::unique_ptr<Module> module = device->load(ptxTestKernels(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("add_to", {2});
  std::unique_ptr<Buffer> host = device->allocate(1024, MemoryKind::Host, "arrays");
  auto *data = reinterpret_cast<float *>(host->host());
  std::unique_ptr<Graph> graph = device->createGraph();
  std::vector<uint64_t> parameters = {host->address(), 5};
  graph->launch(*kernel, {256, 1, 1}, parameters, "add");
  graph->instantiate();
  for (float start : {1.0f, 10.0f}) { // contents may change from replay to replay
    std::fill(data, data + 256, start);
    stream->replay(*graph);
    stream->synchronize();
    EXPECT_EQ(data[0], start + 5);
    EXPECT_EQ(data[255], start + 5);
  }
}

TEST_F(Gpu, OverlappingLaunchesWaitForResults) {
  if (!isHopperOrLater())
    GTEST_SKIP() << "this GPU cannot overlap launches: " << device->info().name;
  std::unique_ptr<Module> module = device->load(bytesOf(overlapText), "overlap");
  std::unique_ptr<Kernel> slow = module->kernel("slow_store", {2, 0, 1});
  std::unique_ptr<Kernel> after = module->kernel("after_wait", {1, 0, 1, 1, true});
  std::unique_ptr<Buffer> out = device->allocate(64, MemoryKind::Device, "out");
  for (uint64_t round = 1; round <= 20; ++round) {
    std::vector<uint64_t> first = {out->address(), 100 * round}, second = {out->address()};
    if (round % 2) {
      stream->launch(*slow, {1, 1, 1}, first, "slow");
      stream->launch(*after, {1, 1, 1}, second, "after");
    } else {
      std::unique_ptr<Graph> graph = device->createGraph();
      graph->launch(*slow, {1, 1, 1}, first, "slow");
      graph->launch(*after, {1, 1, 1}, second, "after");
      graph->instantiate();
      stream->replay(*graph);
      stream->synchronize();
    }
    EXPECT_EQ(values<uint64_t>(*out, 2)[1], 100 * round + 1);
  }
}

// A kernel that may begin early and does not wait is done before the slow one before it: the edge
// is what it should be, in streams and in graphs. The same kernel without the mark comes after.
TEST_F(Gpu, OverlappingLaunchesBeginEarly) {
  if (!isHopperOrLater())
    GTEST_SKIP() << "this GPU cannot overlap launches: " << device->info().name;
  std::unique_ptr<Module> module = device->load(bytesOf(overlapText), "overlap");
  std::unique_ptr<Kernel> slow = module->kernel("slow_store", {2, 0, 1});
  std::unique_ptr<Buffer> out = device->allocate(64, MemoryKind::Device, "out");
  for (bool overlaps : {false, true}) {
    std::unique_ptr<Kernel> next = module->kernel("no_wait", {1, 0, 1, 1, overlaps});
    std::unique_ptr<Graph> graph = device->createGraph();
    std::vector<uint64_t> second = {out->address()}, third = {out->address() + 16};
    std::unique_ptr<Kernel> stamp = module->kernel("no_wait", {1, 0, 1});
    std::vector<uint64_t> slowParameters = {out->address(), 7};
    graph->launch(*stamp, {1, 1, 1}, third, "begin"); // out[3] = time before
    graph->launch(*slow, {1, 1, 1}, slowParameters, "slow");
    graph->launch(*next, {1, 1, 1}, second, "next"); // out[1] = its time
    graph->instantiate();
    for (int i = 0; i < 3; ++i) {
      stream->replay(*graph);
      stream->synchronize();
    }
    std::vector<uint64_t> seen = values<uint64_t>(*out, 4);
    if (overlaps)
      EXPECT_LT(seen[1], seen[3] + 500000); // nanoseconds; the slow one takes 1,000,000
    else
      EXPECT_GE(seen[1], seen[3] + 1000000);
  }
}

TEST_F(Gpu, ClustersHaveTheirSize) {
  if (!isHopperOrLater())
    GTEST_SKIP() << "this GPU has no clusters: " << device->info().name;
  std::unique_ptr<Module> module = device->load(bytesOf(overlapText), "clusters");
  for (uint32_t size : {1u, 2u, 8u, 16u}) {
    std::unique_ptr<Kernel> kernel = module->kernel("cluster_ranks", {1, 0, 32, size});
    std::unique_ptr<Buffer> out = device->allocate(32 * 4, MemoryKind::Device, "out");
    std::vector<uint64_t> parameters = {out->address()};
    std::unique_ptr<Graph> graph = device->createGraph();
    graph->launch(*kernel, {32, 1, 1}, parameters, "ranks");
    graph->instantiate();
    for (bool recorded : {false, true}) {
      stream->fill(*out, 0, 128, 0xff);
      recorded ? stream->replay(*graph) : stream->launch(*kernel, {32, 1, 1}, parameters, "ranks");
      std::vector<uint32_t> ranks = values<uint32_t>(*out, 32);
      for (uint32_t i = 0; i < 32; ++i)
        EXPECT_EQ(ranks[i], i % size) << size << " " << recorded;
    }
  }
}

TEST_F(Gpu, MoreSharedMemoryThanTheDefaultIsGiven) {
  std::unique_ptr<Module> module = device->load(ptxTestKernels(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("use_shared", {1, 99 * 1024});
  std::unique_ptr<Buffer> out = device->allocate(64, MemoryKind::Device, "out");
  std::vector<uint64_t> parameters = {out->address()};
  stream->launch(*kernel, {16, 1, 1}, parameters, "shared");
  EXPECT_EQ(values<uint32_t>(*out, 16)[15], 15u * 1024);
  expectAll(messageOf([&] { module->kernel("use_shared", {1, 1 << 20}); }),
            {"use_shared does not fit", "1048576 bytes of shared memory"});
}

TEST_F(Gpu, CodeThatDoesNotLoadSaysWhy) {
  expectAll(messageOf([&] {
              device->load(bytesOf(".version 8.0\n.target sm_80\n.address_size 64\n"
                                   ".visible .entry k()\n{\n  add.f32 nonsense;\n}\n"),
                           "broken");
            }),
            {"cannot load code object broken", "CUDA_ERROR_INVALID_PTX", "line 6"});
  expectAll(messageOf([&] {
              device->load(bytesOf(".version 8.8\n.target sm_120a\n.address_size 64\n"
                                   ".visible .entry k()\n{\n  ret;\n}\n"),
                           "another chip's");
            }),
            {"cannot load code object another chip's", device->info().software});
}

TEST_F(Gpu, APeersMemoryIsReachedByKernels) {
  if (device->info().peers.empty())
    GTEST_SKIP() << "no other GPU here is reached by " << device->info().name;
  std::unique_ptr<Device> other = createCudaDriver()->open(device->info().peers[0], {});
  std::unique_ptr<Stream> theirs = other->createStream();
  std::unique_ptr<Module> module = device->load(ptxTestKernels(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("add_to", {2});
  device->reach(*other);
  for (uint64_t bytes : {uint64_t(1) << 20, uint64_t(1) << 28}) { // allocated, mapped
    std::unique_ptr<Buffer> buffer = other->allocate(bytes, MemoryKind::Device, "far");
    std::vector<uint64_t> parameters = {buffer->address(), 7};
    stream->launch(*kernel, {64, 1, 1}, parameters, "add");
    stream->synchronize();
    std::vector<float> got(64);
    theirs->read(*buffer, 0, std::as_writable_bytes(std::span(got)));
    EXPECT_EQ(got[63], 7) << bytes;
  }
}

TEST_F(Gpu, AShapeThatDoesNotFitSaysWhichResource) {
  std::unique_ptr<Module> module = device->load(ptxTestKernels(), "kernels");
  expectAll(messageOf([&] { module->kernel("add_to", {.parameters = 2, .threads = 2048}); }),
            {"add_to does not fit", "2048 threads", "registers", "at most 1024"});
}

TEST_F(Gpu, SourceWithoutACompilerSaysWhatToInstall) {
  setenv("M3C_NVRTC", "/absent/libnvrtc.so", 1);
  expectAll(messageOf([&] { device->build({"text", {}, {}}, "layers.0.norm"); }),
            {"no compiler for kernel layers.0.norm", "/absent/libnvrtc.so", "pip install"});
  unsetenv("M3C_NVRTC");
}

TEST_F(Gpu, MakesWeightsUpAsTheCpuDoes) {
  for (const MadeUpCase &example : madeUpCases()) {
    std::unique_ptr<WeightSource> source = openWeights("synthetic:7", example.plan.tables());
    NullDevice here;
    std::vector<std::byte> expected = boundBytes(example.plan, *source, here);
    EXPECT_EQ(boundBytes(example.plan, *source, *device), expected) << example.name;
  }
}

// 64 MiB at a time through two stages, as weights go; the figure is for people.
TEST_F(Gpu, StagedUploadsArriveWhole) {
  constexpr uint64_t part = 64 << 20, parts = 32;
  std::unique_ptr<Buffer> to = device->allocate(part * parts, MemoryKind::Device, "weights");
  auto byteOf = [](uint64_t i, uint64_t place) { return uint8_t(i * 37 + place / 4096 + 1); };
  {
    Staging staging(*device, part);
    double seconds = 0;
    for (uint64_t i = 0; i < parts; ++i) {
      auto begun = std::chrono::steady_clock::now();
      std::byte *stage = staging.stage();
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
      for (uint64_t place = 0; place < part; place += 4096)
        std::memset(stage + place, byteOf(i, place), 4096);
      begun = std::chrono::steady_clock::now();
      staging.send(*to, i * part, part);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    auto begun = std::chrono::steady_clock::now();
    staging.finish();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    printf("waited %.1f ms for %.2f GB\n", seconds * 1e3, double(part * parts) / 1e9);
  }
  std::vector<uint8_t> back(part);
  for (uint64_t i = 0; i < parts; ++i) {
    stream->read(*to, i * part, std::as_writable_bytes(std::span(back)));
    for (uint64_t place = 0; place < part; place += 1021)
      ASSERT_EQ(back[place], byteOf(i, place)) << i << " " << place;
  }
}

// A fault stays until its process ends, so each of these runs in a process of its own: GoogleTest's
// "threadsafe" death tests start this program again for one test. The process says on stderr what
// was not as expected, and ends with 0 when everything was.
namespace {

class Expectations {
public:
  void all(const std::string &text, const std::vector<std::string> &parts) {
    for (const std::string &part : parts)
      if (text.find(part) == std::string::npos) {
        fprintf(stderr, "%s is not in:\n%s\n", part.c_str(), text.c_str());
        failed = true;
      }
  }
  bool failed = false;
};

[[noreturn]] void faultAndOpenAgain(bool checked) {
  Expectations expect;
  {
    std::unique_ptr<Device> device = openGpu(checked);
    std::unique_ptr<Stream> stream = device->createStream();
    std::unique_ptr<Module> module = device->load(ptxTestKernels(), "kernels");
    std::unique_ptr<Kernel> good = module->kernel("nothing", {}),
                            bad = module->kernel("crash", {1});
    std::vector<uint64_t> address = {16};
    std::unique_ptr<Graph> graph = device->createGraph();
    graph->launch(*good, {1, 1, 1}, {}, "layers.0.norm");
    graph->launch(*bad, {3, 1, 1}, address, "layers.0.attention");
    graph->launch(*good, {1, 1, 1}, {}, "layers.0.out");
    graph->instantiate();
    std::string text = messageOf([&] {
      stream->replay(*graph);
      stream->synchronize();
    });
    expect.all(text, {"CUDA_ERROR_ILLEGAL_ADDRESS", "layers.0", "start the program again"});
    if (checked)
      expect.all(text, {"launch layers.0.attention (kernel crash, grid 3 x 1 x 1"});
    // Nothing hangs from here on, and every call says why.
    expect.all(messageOf([&] { stream->synchronize(); }), {"CUDA_ERROR_ILLEGAL_ADDRESS"});
    expect.all(messageOf([&] { device->allocate(1000, MemoryKind::Device, "more"); }),
               {"CUDA_ERROR_ILLEGAL_ADDRESS", "start the program again"});
  }
  expect.all(messageOf([] { openGpu(); }),
             {"CUDA_ERROR_ILLEGAL_ADDRESS", "start the program again"});
  std::exit(expect.failed ? 1 : 0);
}

class GpuFaultDeathTest : public testing::TestWithParam<bool> {
protected:
  GpuFaultDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

} // namespace

TEST_P(GpuFaultDeathTest, CandidatesAreNamedAndTheProcessHasLostTheGpu) {
  EXPECT_EXIT(faultAndOpenAgain(GetParam()), testing::ExitedWithCode(0), "");
}
INSTANTIATE_TEST_SUITE_P(Checked, GpuFaultDeathTest, testing::Bool());

TEST_F(Gpu, OpensAfterAnotherProcessFaulted) {
  EXPECT_NO_THROW(device->allocate(1000, MemoryKind::Device, "after"));
}
