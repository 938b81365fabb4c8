// HIP C++ text to code objects of AMD's GPUs in process: resources from their notes, instructions,
// errors with lines. Compiled and inspected, never run.
#include "compiler/toolchains/HipCompiler.h"
#include "compiler/toolchains/HipResources.h"
#include "compiler/toolchains/Inspect.h"
#include "runtime/base/Error.h"

#include <gtest/gtest.h>

#include <functional>

using namespace m3c;
using namespace m3c::toolchains;

namespace {

const HeaderMap headers = {{"device.h", R"(
#define GLOBAL extern "C" __attribute__((global))
)"}};

/// A kernel whose lanes index an array of `count` floats at run time.
std::string kernel(const std::string &count, const std::string &last = "0") {
  return R"(#include "device.h"
GLOBAL __attribute__((amdgpu_flat_work_group_size(128, 128)))
void scale(float *y, const float *x, int n) {
  __attribute__((shared)) static float kept[64];
  const int lane = __builtin_amdgcn_workitem_id_x();
  float values[)" +
         count + R"(];
  for (int i = 0; i < )" +
         count + R"(; ++i)
    values[i] = x[lane * )" +
         count + R"( + i];
  kept[lane % 64] = values[n % )" +
         count + R"(];
  __builtin_amdgcn_s_barrier();
  y[lane] = __builtin_fmaf(kept[63 - lane % 64], 2.0f, )" +
         last + R"();
}
)";
}

HipCompileOptions gfx950() {
  HipCompileOptions options;
  options.arch = "gfx950";
  return options;
}

std::string messageOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(HipCompiler, ObjectSaysWhatItTakes) {
  auto object = compileHipObject("scale", kernel("1"), headers, gfx950());
  std::vector<HipResources> found = readHipResources("scale", object);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kernel, "scale");
  EXPECT_EQ(found[0].maxThreads, 128u);
  EXPECT_EQ(found[0].lanes, 64u);
  EXPECT_EQ(found[0].sharedBytes, 256u);
  EXPECT_EQ(found[0].argumentBytes, 20u); // two pointers and an int: nothing hidden
  EXPECT_EQ(found[0].hiddenArguments, 0u);
  EXPECT_EQ(found[0].scratchBytes, 0u);
  EXPECT_GT(found[0].vectorRegisters, 0u);
  EXPECT_GT(found[0].scalarRegisters, 0u);
}

TEST(HipCompiler, IndexedArraysTakeScratch) {
  auto object = compileHipObject("scale", kernel("400"), headers, gfx950());
  EXPECT_GE(readHipResources("scale", object)[0].scratchBytes, 400u);
}

TEST(HipCompiler, InstructionsAreRead) {
  auto object = compileHipObject("scale", kernel("1"), headers, gfx950());
  Inspection code = inspectObject("scale", object);
  EXPECT_GT(code.counts["s_barrier"], 0u);
  EXPECT_EQ(code.counts["s_endpgm"], 1u);
  EXPECT_GT(code.textBytes, 0u);
  checkPatterns("scale", code, {{"^v_(fma|add)", "^ds_(read|write)_b32", "^global_store"}, {}});
  std::string said =
      messageOf([&] { checkPatterns("scale", code, {{}, {"^global_store_dword"}}); });
  EXPECT_NE(said.find("global_store_dword"), std::string::npos) << said;
  said = messageOf([&] { checkPatterns("scale", code, {{"v_mfma"}, {}}); });
  EXPECT_NE(said.find("lacks the instruction /v_mfma/"), std::string::npos) << said;
}

TEST(HipCompiler, SameTextSameBytes) {
  EXPECT_EQ(compileHipObject("scale", kernel("1"), headers, gfx950()),
            compileHipObject("scale", kernel("1"), headers, gfx950()));
}

TEST(HipCompiler, ErrorsNameTheLine) {
  std::string said =
      messageOf([&] { compileHipObject("scale", kernel("1", "unknownName"), headers, gfx950()); });
  EXPECT_NE(said.find("kernel scale does not compile"), std::string::npos) << said;
  EXPECT_NE(said.find("scale.hip:11:"), std::string::npos) << said;
  EXPECT_NE(said.find("unknownName"), std::string::npos) << said;
}

TEST(HipCompiler, UnknownFunctionsDoNotLink) {
  std::string text = R"(extern "C" __attribute__((device)) float outside(float);
extern "C" __attribute__((global)) void scale(float *y) { *y = outside(*y); }
)";
  std::string said = messageOf([&] { compileHipObject("scale", text, headers, gfx950()); });
  EXPECT_NE(said.find("outside"), std::string::npos) << said;
}

TEST(HipCompiler, MissingBackendSaysWhatToInstall) {
  std::string said = messageOf([] { requireBackend("nosuch-amd-amdhsa", "gfx950"); });
  EXPECT_NE(said.find("this LLVM cannot build for gfx950"), std::string::npos) << said;
  EXPECT_NE(said.find("libllvm22"), std::string::npos) << said;
}

TEST(HipResources, DamagedObjectsAreRefused) {
  auto object = compileHipObject("scale", kernel("1"), headers, gfx950());
  auto refused = [&](std::span<const std::byte> bytes) {
    return messageOf([&] { readHipResources("scale", bytes); });
  };
  EXPECT_NE(refused(std::span(object).first(40)).find("cannot be read"), std::string::npos);
  HostCompileOptions host;
  host.isa = {"x86-64-v3", {}, 0};
  auto other = compileHostObject(
      "scale", "extern \"C\" __attribute__((visibility(\"default\"))) int f() { return 1; }", {},
      host);
  EXPECT_NE(refused(other).find("it is not for AMD GPUs"), std::string::npos);
  // Every byte of the notes in turn: an error or an answer, no crash.
  for (size_t at = 0; at < std::min<size_t>(object.size(), 1500); ++at) {
    auto damaged = object;
    damaged[at] ^= std::byte(0xff);
    refused(damaged);
  }
}

} // namespace
