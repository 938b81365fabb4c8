// The emulated device as a driver: the suite that every driver passes, and what is its own.
#include "tests/unit/emulator/Bench.h"
#include "tests/unit/hal/HalConformance.h"

using namespace m3c;
using namespace m3c::hal;
using namespace m3c::test;

namespace {

constexpr const char *suite = R"(#include "tile.h"
extern "C" __global__ void add_to(f32 *data, i64 addend) {
  f32 *p = data + blockIdx.x;
  storeAt(p, loadAt(p) + (f32)addend);
}
extern "C" __global__ void write_index(u32 *out, i64 nx, i64 ny) {
  const i64 x = blockIdx.x, y = blockIdx.y, z = blockIdx.z;
  storeAt(out + (z * ny + y) * nx + x, 1 + x + 100 * y + 10000 * z);
}
extern "C" __global__ void use_shared(u32 *out) {
  u32 *scratch = (u32 *)sharedMemory(), sum = 0;
  for (int i = 0; i < 1024; ++i)
    storeAt(scratch + i, blockIdx.x);
  for (int i = 0; i < 1024; ++i)
    sum += loadAt(scratch + i);
  storeAt(out + blockIdx.x, (u64)scratch % 64 ? ~0u : sum);
}
extern "C" __global__ void nothing() {}
)";

INSTANTIATE_TEST_SUITE_P(Emulator, Conformance,
                         testing::Values(DriverUnderTest{
                             "emulator", true,
                             [] { return openEmulatedDevice(loadEmulator(), {"sm90", 1, 2}); },
                             [] { return emulatedCode(suite); }}),
                         testing::PrintToStringParamName());

TEST(EmulatedDevice, SaysWhatCannotBeEmulated) {
  try {
    openEmulatedDevice(loadEmulator(), {"x86", 1, 1});
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(error.why().find("sm90"), std::string::npos) << error.what();
  }
}

TEST(EmulatedDevice, RefusesMachineCode) {
  std::unique_ptr<Device> device = openEmulatedDevice(loadEmulator(), {"sm90", 1, 1});
  std::vector<std::byte> code(64, std::byte(0x7f));
  try {
    device->load(code, "cubin");
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(error.next().find("m3c compile --keep-sources"), std::string::npos) << error.what();
  }
}

/// Instructions of threads that one launch of `turns` turns of a loop counts.
uint64_t instructionsOf(uint32_t threads, int64_t turns) {
  std::unique_ptr<Device> device = openEmulatedDevice(loadEmulator(), {"sm90", 1, 2});
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Module> module = device->load(emulatedCode(R"(#include "tile.h"
extern "C" __global__ void turn(u32 *data, i64 turns) {
  u32 sum = loadAt(data + threadIdx.x);
  for (i64 i = 0; i < turns; ++i)
    sum = sum * 5 + fromLane(sum, (i32)i);
  storeAt(data + threadIdx.x, sum);
}
)"),
                                                "turn");
  std::unique_ptr<Kernel> kernel = module->kernel("turn", {2, 0, threads, 1});
  std::unique_ptr<Buffer> data = device->allocate(4096, MemoryKind::Device, "data");
  uint64_t parameters[] = {data->address(), uint64_t(turns)};
  stream->launch(*kernel, {2, 1, 1}, parameters, "turn");
  std::string said = emulationSummary(*device);
  size_t end = said.find(" thread-instructions, ");
  EXPECT_NE(end, std::string::npos) << said;
  EXPECT_NE(said.find(" million a second, ", end), std::string::npos) << said;
  return std::stoull(said.substr(said.rfind(' ', end - 1) + 1));
}

/// A turn is a multiplication, an addition, an exchange of lanes and the loop's own: from three to
/// a dozen instructions; what a thread does besides is little.
TEST(EmulatedDevice, CountsInstructionsOfThreads) {
  const uint64_t none = instructionsOf(64, 0), once = instructionsOf(64, 1000),
                 twice = instructionsOf(64, 2000), wide = instructionsOf(128, 1000);
  const uint64_t threads = 2 * 64;
  EXPECT_GT(none, threads);
  EXPECT_LT(none, threads * 100);
  EXPECT_GE(once, threads * 1000 * 3);
  EXPECT_LE(once, threads * (1000 * 12 + 100));
  EXPECT_EQ(twice - once, once - none); // so many a turn
  EXPECT_EQ(wide, 2 * once);
  EXPECT_EQ(once, instructionsOf(64, 1000)); // the same order of threads
}

/// What a launch says that does `what` before it waits for the launch before, which wrote `data`;
/// nothing where it runs.
std::string earlyAccess(const std::string &what, const std::string &wait = "awaitLaunch();") {
  std::unique_ptr<Device> device = openEmulatedDevice(loadEmulator(), {"sm90", 1, 2});
  std::unique_ptr<Stream> stream = device->createStream();
  const std::string begin = "#include \"tile.h\"\nextern \"C\" __global__ void ";
  const std::pair<const char *, std::string> kernels[] = {
      {"first", "first(u32 *data, u32 *weights) { storeAt(data + threadIdx.x, 1u); }\n"},
      {"second", "second(u32 *data, u32 *weights) {\n  u32 sum = 0;\n  " + what + "\n  " + wait +
                     "\n  storeAt(data + threadIdx.x, sum + loadAt(data + "
                     "threadIdx.x));\n}\n"}};
  std::unique_ptr<Buffer> data = device->allocate(8192, MemoryKind::Device, "data");
  std::unique_ptr<Buffer> weights = device->allocate(8192, MemoryKind::Device, "weights");
  std::vector<uint64_t> values = {data->address(), weights->address()};
  try {
    for (const auto &[name, text] : kernels) {
      std::unique_ptr<Module> module = device->load(emulatedCode(begin + text), name);
      std::unique_ptr<Kernel> kernel = module->kernel(name, {2, 0, 64, 1});
      stream->launch(*kernel, {2, 1, 1}, values, name);
    }
  } catch (const Error &error) {
    return error.why();
  }
  return "";
}

TEST(EmulatedDevice, SaysWhatIsTouchedBeforeTheLaunchBeforeHasEnded) {
  EXPECT_EQ(earlyAccess(""), "");
  EXPECT_EQ(earlyAccess("sum += loadAt(weights + threadIdx.x);"), "");
  EXPECT_NE(earlyAccess("sum += loadAt(data + threadIdx.x);")
                .find("of data, which launches write, before its thread has waited"),
            std::string::npos);
  EXPECT_NE(earlyAccess("storeAt(weights + threadIdx.x, sum);")
                .find("of weights before its thread has waited"),
            std::string::npos);
  // A launch that lets the next one begin has to wait, or that one would not wait for those before.
  EXPECT_NE(earlyAccess("", "allowLaunch();").find("before its thread has waited"),
            std::string::npos);
}

/// What a launch of `bounded` with so many threads and parameters says; nothing where it runs.
std::string refusalOf(uint32_t threads, uint32_t parameters) {
  std::unique_ptr<Device> device = openEmulatedDevice(loadEmulator(), {"sm90", 1, 1});
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Module> module = device->load(emulatedCode(R"(#include "tile.h"
extern "C" __global__ __launch_bounds__(64, 2) void bounded(u32 *data, i64 value) {
  storeAt(data + threadIdx.x, (u32)value);
}
)"),
                                                "bounded");
  std::unique_ptr<Buffer> data = device->allocate(4096, MemoryKind::Device, "data");
  std::vector<uint64_t> values = {data->address(), 7, 7};
  values.resize(parameters);
  try {
    std::unique_ptr<Kernel> kernel = module->kernel("bounded", {parameters, 0, threads, 1});
    for (int again = 0; again < 2; ++again)
      stream->launch(*kernel, {1, 1, 1}, values, "bounded");
  } catch (const Error &error) {
    return error.why();
  }
  return "";
}

TEST(EmulatedDevice, RefusesLaunchesThatTheTextIsNotFor) {
  EXPECT_EQ(refusalOf(64, 2), "");
  EXPECT_EQ(refusalOf(32, 2), "");
  EXPECT_NE(refusalOf(96, 2).find("of 64 threads (__launch_bounds__), not 96"), std::string::npos);
  for (uint32_t parameters : {0u, 1u, 3u})
    EXPECT_NE(refusalOf(64, parameters).find("2 parameters, " + std::to_string(parameters)),
              std::string::npos)
        << parameters;
}

TEST(EmulatedDevice, TextThatDoesNotCompileIsNamedWithItsLine) {
  std::vector<std::byte> data(64);
  try {
    runEmulated({"wrong", "#include \"tile.h\"\nextern \"C\" __global__ void wrong(f32 *p) {\n  "
                          "storeAt(p, missing);\n}\n"},
                {&data});
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("wrong.text:3"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos) << error.what();
  }
}

} // namespace
