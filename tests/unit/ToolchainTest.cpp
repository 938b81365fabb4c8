// clang and lld in process: objects that load and run, errors with lines, determinism, inspection.
#include "compiler/toolchains/HostCompiler.h"
#include "compiler/toolchains/Inspect.h"
#include "runtime/base/Error.h"
#include "runtime/hal/HostKernel.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace m3c;
using namespace m3c::toolchains;

namespace {

const HeaderMap headers = {{"device/vector.h", R"(#pragma once
#include <stdint.h>
#include <immintrin.h>
inline void scaleRow(float *y, const float *x, float s, int64_t n) {
  __m256 f = _mm256_set1_ps(s);
  for (int64_t i = 0; i < n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_fmadd_ps(f, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
}
)"}};

const std::string source = R"(#include "device/vector.h"
extern "C" __attribute__((visibility("default"))) void
scale(void *const *params, uint32_t x, uint32_t, uint32_t, void *) {
  auto *y = *(float **)params[0];
  auto *v = *(const float **)params[1];
  scaleRow(y + x * 16, v + x * 16, 2.0f, 16);
}
)";

HostCompileOptions avx2() {
  HostCompileOptions options;
  options.isa = {"x86-64-v3", {}, 0};
  return options;
}

std::string messageOf(const std::string &text) {
  try {
    compileHostObject("broken", text, headers, avx2());
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(HostCompiler, ObjectRunsFromMemory) {
  if (!__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "this machine has no AVX2";
  std::vector<std::byte> object = compileHostObject("scale", source, headers, avx2());
  int file = memfd_create("scale", 0);
  ASSERT_EQ(write(file, object.data(), object.size()), ssize_t(object.size()));
  void *library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  auto kernel = reinterpret_cast<hal::HostKernelFn>(dlsym(library, "scale"));
  ASSERT_TRUE(kernel);
  std::vector<float> x(32), y(32, 1.0f);
  for (int i = 0; i < 32; ++i)
    x[i] = float(i);
  float *yPointer = y.data();
  const float *xPointer = x.data();
  void *params[] = {&yPointer, &xPointer};
  kernel(params, 1, 0, 0, nullptr);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(y[i], i < 16 ? 1.0f : 1.0f + 2.0f * float(i));
  dlclose(library);
  close(file);
}

TEST(HostCompiler, SameInputGivesSameBytesFromAnyThread) {
  std::vector<std::byte> first = compileHostObject("scale", source, headers, avx2()), a, b;
  std::thread one([&] { a = compileHostObject("scale", source, headers, avx2()); });
  std::thread two([&] { b = compileHostObject("scale", source, headers, avx2()); });
  one.join();
  two.join();
  EXPECT_EQ(first, a);
  EXPECT_EQ(first, b);
  std::string text(reinterpret_cast<const char *>(first.data()), first.size());
  for (const char *path : {"/m3c", "/usr", "/tmp", "/home", "clang version"})
    EXPECT_EQ(text.find(path), std::string::npos) << path;
}

TEST(HostCompiler, ErrorsNameTheLine) {
  std::string text =
      messageOf("#include \"device/vector.h\"\nint f() {\n  return undefinedName;\n}\n");
  EXPECT_NE(text.find("broken.cpp:3:10"), std::string::npos) << text;
  EXPECT_NE(text.find("return undefinedName;"), std::string::npos) << text;
  EXPECT_NE(messageOf("#include \"absent.h\"\n").find("absent.h"), std::string::npos);
}

TEST(HostCompiler, RefusesForeignSymbols) {
  std::string text = messageOf("extern \"C\" float expf(float);\nextern \"C\" "
                               "__attribute__((visibility(\"default\"))) void k(float *x) "
                               "{ *x = expf(*x); }\n");
  EXPECT_NE(text.find("needs the symbol expf"), std::string::npos) << text;
}

TEST(HostCompiler, ContractionIsAsAsked) {
  const std::string madd = "extern \"C\" __attribute__((visibility(\"default\"))) void k(float *x) "
                           "{ x[0] = x[0] * x[1] + x[2]; }\n";
  auto fused = [&](Contraction contraction) {
    HostCompileOptions options = avx2();
    options.contraction = contraction;
    Inspection code = inspectObject("k", compileHostObject("k", madd, {}, options));
    unsigned count = 0;
    for (const auto &[mnemonic, n] : code.counts)
      count += mnemonic.starts_with("vfmadd") ? n : 0;
    return count;
  };
  EXPECT_EQ(fused(Contraction::Off), 0u);
  EXPECT_EQ(fused(Contraction::On), 1u);
}

TEST(Inspect, CountsSymbolsAndPatterns) {
  Inspection code = inspectObject("scale", compileHostObject("scale", source, headers, avx2()));
  EXPECT_EQ(code.exports, std::vector<std::string>{"scale"});
  EXPECT_TRUE(code.imports.empty());
  EXPECT_EQ(code.spillBytes, 0u);
  EXPECT_EQ(code.counts.at("retq"), 1u);
  EXPECT_NE(code.text().find("scale:"), std::string::npos);
  EXPECT_NO_THROW(checkPatterns("scale", code, {{"^vfmadd[0-9]*ps .*ymm"}, {"zmm", "^vmulps"}}));
  EXPECT_THROW(checkPatterns("scale", code, {{"zmm"}, {}}), Error);
  EXPECT_THROW(checkPatterns("scale", code, {{}, {"ymm"}}), Error);
}

TEST(Inspect, FindsWideInstructionsAndSpills) {
  HostCompileOptions options;
  options.isa = {"x86-64-v4", {"+avx512vnni"}, 512};
  // 40 live accumulators do not fit into 32 registers.
  const std::string text = R"(typedef float v16 __attribute__((vector_size(64), aligned(4)));
extern "C" __attribute__((visibility("default"))) void k(v16 *c, const v16 *a, int n) {
  v16 acc[40] = {};
  for (int i = 0; i < n; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < 40; ++j)
      acc[j] += a[i] * a[i + j];
#pragma clang loop unroll(full)
  for (int j = 0; j < 40; ++j)
    c[j] = acc[j];
})";
  Inspection code = inspectObject("k", compileHostObject("k", text, {}, options));
  EXPECT_NO_THROW(checkPatterns("k", code, {{"zmm31"}, {}}));
  EXPECT_GT(code.spillBytes, 0u);
}

TEST(Inspect, RefusesOtherBytes) {
  std::vector<std::byte> bytes(100, std::byte{7});
  EXPECT_THROW(inspectObject("x", bytes), Error);
}

} // namespace
