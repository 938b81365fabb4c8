// The CUDA driver over a libcuda without a GPU: what it asks of the library, and its refusals.
#include "runtime/drivers/cuda/CudaDriver.h"
#include "runtime/base/Error.h"
#include "tests/unit/hal/FakeCuda.h"
#include "tests/unit/hal/HalConformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>

using namespace m3c;
using namespace m3c::hal;

namespace {

constexpr int outOfMemory = 2, noDevice = 100, noBinary = 209, driverMismatch = 803;

class CudaDriver : public testing::Test {
protected:
  CudaDriver() { reset(13000, 1); }
  ~CudaDriver() override {
    EXPECT_EQ(function<size_t (*)()>("fakeCudaLive")(), 0u); // nothing is left behind
    dlclose(fake);
  }

  template <typename F> F function(const char *name) {
    return reinterpret_cast<F>(dlsym(fake, name));
  }
  void reset(int version, int devices) {
    function<void (*)(int, int)>("fakeCudaReset")(version, devices);
  }
  void failNext(const char *name, int result, int after = 0) {
    function<void (*)(const char *, int, int)>("fakeCudaFail")(name, result, after);
  }
  FakeCudaLaunch last() {
    FakeCudaLaunch launch;
    function<void (*)(FakeCudaLaunch *)>("fakeCudaLastLaunch")(&launch);
    return launch;
  }

  static std::unique_ptr<Device> open(bool checkLaunches = false) {
    DeviceOptions options;
    options.checkLaunches = checkLaunches;
    return createCudaDriver(M3C_FAKE_CUDA)->open(0, options);
  }

  template <typename Work> static std::string messageOf(Work work) {
    try {
      work();
    } catch (const Error &error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  static void expectAll(const std::string &text, const std::vector<std::string> &parts) {
    for (const std::string &part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
  }

  void *fake = dlopen(M3C_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
};

} // namespace

TEST_F(CudaDriver, DevicesSayWhatCodeTheyRun) {
  reset(13000, 2);
  std::vector<DeviceInfo> devices = createCudaDriver(M3C_FAKE_CUDA)->devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].features, (std::vector<std::string>{"sm_90", "sm_90a"}));
  EXPECT_EQ(devices[0].workers, 132u);
  EXPECT_EQ(devices[0].memoryBytes, 1u << 30);
  EXPECT_EQ(devices[0].clockHertz, 1980000000u);
  EXPECT_EQ(devices[0].cacheBytes, 50u << 20);
  EXPECT_NE(devices[0].software.find("CUDA 13.0"), std::string::npos);
  EXPECT_EQ(devices[1].peers, std::vector<unsigned>{0});
}

TEST_F(CudaDriver, WithoutALibraryThereAreNoDevicesAndItSaysWhy) {
  std::unique_ptr<Driver> driver = createCudaDriver("libabsent-cuda.so.1");
  EXPECT_TRUE(driver->devices().empty());
  expectAll(driver->absence(), {"no NVIDIA driver is installed", "libabsent-cuda.so.1"});
  expectAll(messageOf([&] { driver->open(0, {}); }), {"no CUDA device 0", "--device host"});
}

TEST_F(CudaDriver, AnOldDriverIsNamed) {
  std::unique_ptr<Driver> incomplete = createCudaDriver(M3C_FAKE_CUDA_OLD);
  EXPECT_TRUE(incomplete->devices().empty());
  expectAll(incomplete->absence(), {"too old", "cuGraphAddDependencies_v2", "newer NVIDIA driver"});
  reset(12040, 1);
  std::unique_ptr<Driver> old = createCudaDriver(M3C_FAKE_CUDA);
  EXPECT_TRUE(old->devices().empty());
  expectAll(old->absence(), {"too old", "CUDA 12.8"});
}

TEST_F(CudaDriver, ADriverThatDoesNotStartIsNamed) {
  failNext("cuInit", driverMismatch);
  std::unique_ptr<Driver> driver = createCudaDriver(M3C_FAKE_CUDA);
  EXPECT_TRUE(driver->devices().empty());
  expectAll(driver->absence(), {"does not start", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"});
}

TEST_F(CudaDriver, NoGpuIsNamed) {
  reset(13000, 0);
  std::unique_ptr<Driver> driver = createCudaDriver(M3C_FAKE_CUDA);
  EXPECT_TRUE(driver->devices().empty());
  EXPECT_NE(driver->absence().find("no GPU"), std::string::npos);
  failNext("cuDevicePrimaryCtxRetain", noDevice);
  reset(13000, 1);
  expectAll(messageOf([&] { createCudaDriver(M3C_FAKE_CUDA)->open(3, {}); }),
            {"no CUDA device 3", "1 of them"});
}

TEST_F(CudaDriver, MemoryThatIsMissingIsSaidWithItsSize) {
  std::unique_ptr<Device> device = open();
  for (uint64_t bytes : {uint64_t(2) << 30, uint64_t(1) << 45})
    expectAll(messageOf([&] { device->allocate(bytes, MemoryKind::Device, "the KV cache"); }),
              {"no memory for the KV cache", "Fake GPU", std::to_string(bytes), "are free",
               "smaller cache"});
  failNext("cuMemHostAlloc", outOfMemory);
  EXPECT_THROW(device->allocate(100, MemoryKind::Host, "arrays"), Error);
  EXPECT_EQ(device->counters().allocatedBytes, 0u);
  EXPECT_EQ(device->availableBytes(), 1u << 30);
}

// Every step of making a buffer may fail; none leaves anything behind.
TEST_F(CudaDriver, HalfMadeBuffersAreTakenBack) {
  std::unique_ptr<Device> device = open();
  auto allocate = [&](uint64_t bytes, MemoryKind kind) {
    device->allocate(bytes, kind, "a buffer");
  };
  for (const char *name : {"cuMemAlloc_v2", "cuMemsetD8Async", "cuStreamSynchronize"}) {
    failNext(name, outOfMemory);
    EXPECT_THROW(allocate(1000, MemoryKind::Device), Error) << name;
  }
  for (const char *name :
       {"cuMemGetAllocationGranularity", "cuMemAddressReserve", "cuMemCreate", "cuMemMap",
        "cuMemSetAccess", "cuMemsetD8Async", "cuStreamSynchronize"}) {
    failNext(name, outOfMemory);
    EXPECT_THROW(allocate(100 << 20, MemoryKind::Device), Error) << name;
  }
  failNext("cuMemHostGetDevicePointer_v2", outOfMemory);
  EXPECT_THROW(allocate(1000, MemoryKind::Host), Error);
  EXPECT_EQ(device->counters().allocatedBytes, 0u);
  EXPECT_EQ(device->availableBytes(), 1u << 30);
}

TEST_F(CudaDriver, LargeBuffersAreZeroAndCounted) {
  std::unique_ptr<Device> device = open();
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Buffer> buffer = device->allocate(65 << 20, MemoryKind::Device, "pages");
  EXPECT_EQ(device->counters().allocatedBytes, uint64_t(65) << 20);
  EXPECT_EQ(device->availableBytes(), (uint64_t(1) << 30) - (uint64_t(66) << 20)); // whole steps
  std::vector<uint64_t> values(1000);
  stream->read(*buffer, buffer->size() - 8000, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(std::ranges::all_of(values, [](uint64_t value) { return value == 0; }));
}

TEST_F(CudaDriver, APeerReachesWhatIsThereAndWhatComesLater) {
  reset(13000, 3);
  std::unique_ptr<Driver> driver = createCudaDriver(M3C_FAKE_CUDA);
  std::unique_ptr<Device> reader = driver->open(0, {}), owner = driver->open(1, {});
  auto reaches = [&](const Buffer &buffer, int device) {
    return function<bool (*)(unsigned long long, int)>("fakeCudaReaches")(buffer.address(), device);
  };
  auto large = [&] { return owner->allocate(100 << 20, MemoryKind::Device, "pages"); };
  std::unique_ptr<Buffer> before = large(), gone = large();
  gone.reset();
  EXPECT_TRUE(reaches(*before, 1));
  EXPECT_FALSE(reaches(*before, 0));
  for (int again = 0; again < 2; ++again)
    reader->reach(*owner);
  std::unique_ptr<Buffer> after = large();
  EXPECT_TRUE(reaches(*before, 0));
  EXPECT_TRUE(reaches(*after, 0));
  EXPECT_EQ(function<size_t (*)()>("fakeCudaPeers")(), 1u); // one way
  std::unique_ptr<Device> alone = driver->open(2, {});
  expectAll(messageOf([&] { alone->reach(*owner); }), {"device 2", "cannot reach", "device 1"});
  failNext("cuCtxEnablePeerAccess", outOfMemory);
  EXPECT_THROW(owner->reach(*reader), Error);
}

TEST_F(CudaDriver, CodeThatDoesNotLoadIsRefusedWithTheLog) {
  std::unique_ptr<Device> device = open();
  std::vector<std::byte> code = test::ptxTestKernels();
  failNext("cuModuleLoadDataEx", noBinary);
  expectAll(messageOf([&] { device->load(code, "layers.3.qkv"); }),
            {"cannot load code object layers.3.qkv", "CUDA_ERROR_NO_BINARY_FOR_GPU", "line 7",
             "sm_90a", "CUDA 13.0"});
  std::vector<std::byte> junk(100, std::byte('x'));
  expectAll(messageOf([&] { device->load(junk, "junk"); }), {"junk", "neither an ELF"});
  std::vector<std::byte> host = {std::byte(0x7f), std::byte('E'), std::byte('L'), std::byte('F')};
  host.resize(64);
  expectAll(messageOf([&] { device->load(host, "host code"); }), {"not for NVIDIA GPUs"});
}

// The driver is not told where an object ends: one that says that it goes on does not reach it.
TEST_F(CudaDriver, CodeThatIsCutOffIsRefusedBeforeTheDriverSeesIt) {
  std::unique_ptr<Device> device = open();
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190; // EM_CUDA
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shoff = sizeof header;
  header.e_shnum = 1;
  Elf64_Shdr section = {};
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = sizeof header + sizeof section;
  section.sh_size = 100;
  std::vector<std::byte> code(sizeof header + sizeof section + 100);
  std::memcpy(code.data(), &header, sizeof header);
  std::memcpy(code.data() + sizeof header, &section, sizeof section);
  EXPECT_NO_THROW(device->load(code, "whole"));
  code.pop_back();
  expectAll(messageOf([&] { device->load(code, "cut"); }),
            {"cannot load code object cut", "section 0 ends after the last of 227 bytes",
             "`m3c verify`"});
  code.resize(sizeof header + 10);
  expectAll(messageOf([&] { device->load(code, "cut"); }), {"headers end after the last of 74"});
  code.resize(10);
  expectAll(messageOf([&] { device->load(code, "cut"); }), {"10 bytes are too few"});
}

TEST_F(CudaDriver, AShapeThatDoesNotFitSaysWhichResourceAndByHowMuch) {
  std::unique_ptr<Device> device = open();
  std::unique_ptr<Module> module = device->load(test::ptxTestKernels(), "kernels");
  expectAll(messageOf([&] { module->kernel("add_to", {.parameters = 2, .threads = 768}); }),
            {"add_to does not fit Fake GPU", "768 threads", "128 registers", "at most 512"});
  // 256 bytes are in the code, 232448 are possible.
  expectAll(messageOf([&] { module->kernel("add_to", {2, 232448}); }),
            {"232704 bytes of shared memory", "256 more than the 232448"});
  EXPECT_NO_THROW(module->kernel("add_to", {2, 232448 - 256}));
}

TEST_F(CudaDriver, LaunchesCarryTheirShape) {
  std::unique_ptr<Device> device = open();
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Module> module = device->load(test::ptxTestKernels(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("nothing", {0, 50000, 256, 2, true});
  stream->launch(*kernel, {4, 1, 1}, {}, "first");
  EXPECT_EQ(last().threads, 256u);
  EXPECT_EQ(last().sharedBytes, 50000u);
  EXPECT_EQ(last().cluster, 2u);
  EXPECT_TRUE(last().early);
  expectAll(messageOf([&] { stream->launch(*kernel, {3, 1, 1}, {}, "odd"); }),
            {"odd", "no multiple of the cluster's 2"});
  expectAll(messageOf([&] { stream->launch(*kernel, {2, 70000, 1}, {}, "wide"); }),
            {"wide", "2 x 70000 x 1", "65535"});

  // In a graph only a kernel that follows a kernel begins early.
  std::unique_ptr<Buffer> a = device->allocate(64, MemoryKind::Device, "a");
  std::unique_ptr<Graph> graph = device->createGraph();
  graph->launch(*kernel, {4, 1, 1}, {}, "first");
  graph->launch(*kernel, {4, 1, 1}, {}, "early");
  graph->copy(*a, 0, *a, 32, 32, "copy");
  graph->launch(*kernel, {4, 1, 1}, {}, "after the copy");
  graph->launch(*kernel, {0, 1, 1}, {}, "empty");
  graph->launch(*kernel, {4, 1, 1}, {}, "early again");
  graph->instantiate();
  EXPECT_EQ(last().earlyEdges, 2u);
  stream->replay(*graph);
  stream->synchronize();
  EXPECT_EQ(last().count, 5u);
  EXPECT_EQ(graph->nodes(), 6u);
}

TEST_F(CudaDriver, AGraphThatCannotBeMadeNamesTheLaunch) {
  std::unique_ptr<Device> device = open();
  std::unique_ptr<Module> module = device->load(test::ptxTestKernels(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("nothing", {0, 1024, 128});
  for (const char *name : {"cuGraphAddKernelNode_v2", "cuGraphInstantiateWithParams"}) {
    std::unique_ptr<Graph> graph = device->createGraph();
    graph->launch(*kernel, {7, 2, 1}, {}, "layers.0.norm");
    failNext(name, outOfMemory);
    expectAll(messageOf([&] { graph->instantiate(); }),
              {"layers.0.norm", "kernel nothing", "7 x 2 x 1", "128 threads", "1024 shared bytes",
               "CUDA_ERROR_OUT_OF_MEMORY"});
  }
}

TEST_F(CudaDriver, AFaultNamesTheCandidates) {
  std::unique_ptr<Device> device = open();
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Module> module = device->load(test::ptxTestKernels(), "kernels");
  std::unique_ptr<Kernel> good = module->kernel("nothing", {}), bad = module->kernel("crash", {1});
  std::vector<uint64_t> address = {0};
  stream->launch(*good, {1, 1, 1}, {}, "before");
  stream->synchronize();
  std::unique_ptr<Graph> graph = device->createGraph();
  graph->launch(*good, {1, 1, 1}, {}, "layers.0.norm");
  graph->launch(*bad, {1, 1, 1}, address, "layers.0.attention");
  graph->instantiate();
  stream->replay(*graph);
  std::string text = messageOf([&] { stream->synchronize(); });
  expectAll(text, {"CUDA_ERROR_ILLEGAL_ADDRESS",
                   "a graph of 2 nodes, layers.0.norm to "
                   "layers.0.attention",
                   "--check-launches"});
  EXPECT_EQ(text.find("before"), text.find("before, and not known")); // it had ended well
}

// A real driver keeps the fault until the process ends: no context can be had any more.
TEST_F(CudaDriver, AFaultedProcessIsToldToStartAgain) {
  {
    std::unique_ptr<Device> device = open();
    std::unique_ptr<Stream> stream = device->createStream();
    std::unique_ptr<Module> module = device->load(test::ptxTestKernels(), "kernels");
    std::unique_ptr<Kernel> bad = module->kernel("crash", {1});
    std::vector<uint64_t> address = {0};
    stream->launch(*bad, {1, 1, 1}, address, "layers.0.attention");
    for (int i = 0; i < 2; ++i)
      expectAll(messageOf([&] { stream->synchronize(); }),
                {"CUDA_ERROR_ILLEGAL_ADDRESS", "start the program again"});
    expectAll(messageOf([&] { device->allocate(64, MemoryKind::Device, "more"); }),
              {"allocating more", "start the program again"});
  }
  expectAll(messageOf([] { open(); }), {"opening Fake GPU", "CUDA_ERROR_ILLEGAL_ADDRESS",
                                        "stays lost", "start the program again"});
}

TEST_F(CudaDriver, CheckedLaunchesNameTheOneThatFailed) {
  for (bool recorded : {false, true}) {
    reset(13000, 1);
    std::unique_ptr<Device> device = open(true);
    std::unique_ptr<Stream> stream = device->createStream();
    std::unique_ptr<Module> module = device->load(test::ptxTestKernels(), "kernels");
    std::unique_ptr<Kernel> good = module->kernel("nothing", {}),
                            bad = module->kernel("crash", {1, 64, 32});
    std::vector<uint64_t> address = {0};
    std::unique_ptr<Graph> graph = device->createGraph();
    graph->launch(*good, {1, 1, 1}, {}, "layers.0.norm");
    graph->launch(*bad, {5, 1, 1}, address, "layers.0.attention");
    graph->launch(*good, {1, 1, 1}, {}, "layers.0.out");
    graph->instantiate();
    std::string text = messageOf([&] {
      recorded ? stream->replay(*graph)
               : stream->launch(*bad, {5, 1, 1}, address, "layers.0.attention");
    });
    expectAll(text, {"launch layers.0.attention", "kernel crash", "5 x 1 x 1", "32 threads",
                     "64 shared bytes", "CUDA_ERROR_ILLEGAL_ADDRESS"});
    EXPECT_EQ(text.find("layers.0.out"), std::string::npos);
  }
}

TEST_F(CudaDriver, ALaunchThatIsRefusedIsNamed) {
  std::unique_ptr<Device> device = open();
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Module> module = device->load(test::ptxTestKernels(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("nothing", {0, 1024, 128});
  failNext("cuLaunchKernelEx", outOfMemory);
  expectAll(messageOf([&] { stream->launch(*kernel, {7, 2, 1}, {}, "layers.0.norm"); }),
            {"layers.0.norm", "kernel nothing", "7 x 2 x 1", "128 threads", "1024 shared bytes",
             "cuLaunchKernelEx", "CUDA_ERROR_OUT_OF_MEMORY"});
}

TEST_F(CudaDriver, SourceIsBuiltWhereThereIsACompiler) {
  std::unique_ptr<Device> device = open();
  SourceText source{".version 8.0\n.entry nothing(\n", {{"tile.h", "// tiles"}}, {"--std=c++20"}};
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "built_kernels";
  std::filesystem::remove_all(folder);
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  setenv("M3C_NVRTC", M3C_FAKE_NVRTC, 1);
  void *compiler = dlopen(M3C_FAKE_NVRTC, RTLD_NOW | RTLD_LOCAL);
  auto compilations = reinterpret_cast<int (*)()>(dlsym(compiler, "fakeNvrtcCompilations"));
  int before = compilations();
  std::vector<std::byte> code = device->build(source, "nothing");
  EXPECT_EQ(device->build(source, "nothing"), code); // from the disk
  EXPECT_EQ(compilations() - before, 1);
  source.options.push_back("--fmad=false"); // part of what decides
  device->build(source, "nothing");
  EXPECT_EQ(compilations() - before, 2);
  EXPECT_EQ(device->load(code, "nothing")->kernel("nothing", {})->name(), "nothing");
  source.text += "broken";
  expectAll(messageOf([&] { device->build(source, "nothing"); }),
            {"kernel nothing cannot be built from its source", "nothing.cu(1): error", "// tiles",
             "--std=c++20", "--gpu-architecture=sm_90a"});
  setenv("M3C_NVRTC", "/absent/libnvrtc.so", 1);
  expectAll(messageOf([&] { device->build(source, "nothing"); }),
            {"no compiler for kernel nothing", "/absent/libnvrtc.so", "pip install"});
  setenv("M3C_NVRTC", M3C_FAKE_CUDA, 1);
  expectAll(messageOf([&] { device->build(source, "nothing"); }), {"too old", "nvrtcVersion"});
  unsetenv("M3C_NVRTC");
  unsetenv("XDG_CACHE_HOME");
  dlclose(compiler);
}
