// CUDA text to machine code, and what can be read from it, on machines without a GPU. Needs the
// wheels of NVRTC and nvdisasm that tools/setup-debian.sh installs.
#include "compiler/toolchains/CudaCompiler.h"
#include "compiler/toolchains/CudaInspect.h"
#include "compiler/toolchains/CudaResources.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/cuda/CudaBuild.h"
#include "runtime/drivers/nvrtc/Library.h"
#include "tests/unit/SpillingKernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

using namespace m3c;
using namespace m3c::toolchains;

namespace {

const HeaderMap headers = {
    {"device/scale.h", "template <int N> __device__ float scaled(float x) { return x * N; }\n"}};

const std::string source = R"(#include "device/scale.h"
extern "C" __global__ void __launch_bounds__(96) scale(float *x, int n) {
  __shared__ float tile[96];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = scaled<3>(tile[95 - threadIdx.x]) + n;
}
)";

std::string messageOf(const std::string &text, const std::string &arch = "sm_90a") {
  try {
    compileCudaObject("broken", text, headers, {.arch = arch});
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

CudaResources resourcesOf(const std::string &text, const std::string &arch = "sm_90a") {
  std::vector<CudaResources> all =
      readCudaResources("k", compileCudaObject("k", text, headers, {.arch = arch}));
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

} // namespace

TEST(CudaCompiler, EveryArchitectureOfTheDesignIsBuilt) {
  for (const char *arch : {"sm_90a", "sm_100a", "sm_103a", "sm_107a"}) {
    CudaResources scale = resourcesOf(source, arch);
    EXPECT_EQ(scale.kernel, "scale") << arch;
    EXPECT_EQ(scale.sharedBytes, 96 * sizeof(float)) << arch; // not the hardware's own 1 KiB
    EXPECT_EQ(scale.maxThreads, 96u) << arch;
    EXPECT_EQ(scale.barriers, 1u) << arch;
    EXPECT_EQ(scale.stackBytes, 0u) << arch;
    EXPECT_GT(scale.registers, 4u) << arch;
    EXPECT_LT(scale.registers, 40u) << arch;
    EXPECT_GT(scale.codeBytes, 0u) << arch;
    EXPECT_NE(cudaToolchainVersion(arch).find("NVRTC 13."), std::string::npos);
  }
}

TEST(CudaCompiler, SameInputGivesSameBytesFromAnyThread) {
  CudaCompileOptions options{.arch = "sm_90a"};
  std::vector<std::byte> first = compileCudaObject("scale", source, headers, options), a, b;
  std::thread one([&] { a = compileCudaObject("scale", source, headers, options); });
  std::thread two([&] { b = compileCudaObject("scale", source, headers, options); });
  one.join();
  two.join();
  EXPECT_EQ(first, a);
  EXPECT_EQ(first, b);
  std::string text(reinterpret_cast<const char *>(first.data()), first.size());
  for (const char *path : {"/usr", "/tmp", "/home", "/work"})
    EXPECT_EQ(text.find(path), std::string::npos) << path;
}

TEST(CudaCompiler, ErrorsNameTheLine) {
  std::string text = messageOf("#include \"device/scale.h\"\n__device__ int f() {\n"
                               "  return undefinedName;\n}\n");
  EXPECT_NE(text.find("where: broken.cu(3)"), std::string::npos) << text;
  EXPECT_NE(text.find("undefinedName"), std::string::npos) << text;
  EXPECT_NE(messageOf("#include \"absent.h\"\n").find("absent.h"), std::string::npos);
}

TEST(CudaCompiler, AnUnknownArchitectureNamesWhatWasFound) {
  std::string text = messageOf(source, "sm_999a");
  EXPECT_NE(text.find("no compiler for sm_999a"), std::string::npos) << text;
  EXPECT_NE(text.find("NVRTC 13."), std::string::npos) << text;
  EXPECT_NE(text.find("pip install"), std::string::npos) << text;
  EXPECT_EQ(text.find("needs NVRTC"), std::string::npos) << text;
}

TEST(CudaCompiler, AnAbsentCompilerIsNamedWithTheVersionThatIsNeeded) {
  setenv("M3C_NVRTC", "/absent/libnvrtc.so", 1);
  std::string text = messageOf(source, "sm_107a");
  unsetenv("M3C_NVRTC");
  for (const char *part : {"no compiler for sm_107a", "sm_107a needs NVRTC 13.4 or newer",
                           "/absent/libnvrtc.so", "pip install 'nvidia-cuda-nvrtc==13.5.*'"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(CudaCompiler, ContractionIsAsAsked) {
  const std::string madd =
      "extern \"C\" __global__ void k(float *x) { x[0] = x[0] * x[1] + x[2]; }";
  for (auto [contraction, fused] : {std::pair(Contraction::Off, false), {Contraction::On, true}}) {
    std::string text =
        compileCudaAssembly("k", madd, {}, {.arch = "sm_90a", .contraction = contraction});
    EXPECT_EQ(text.find("fma.rn.f32") != std::string::npos, fused);
  }
}

// setmaxnreg needs a register cap at entry; without one ptxas warns and drops it.
TEST(CudaCompiler, CodeThatIsNotBuiltAsWrittenIsRefused) {
  const std::string text = "extern \"C\" __global__ void k(float *x) {\n"
                           "  asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");\n"
                           "  x[threadIdx.x] = 1;\n}\n";
  EXPECT_NE(messageOf(text).find("setmaxnreg"), std::string::npos);
  EXPECT_NO_THROW(compileCudaObject("k", text, {}, {.arch = "sm_90a", .strict = false}));
}

TEST(CudaResources, ASpillIsSeen) {
  CudaResources k = resourcesOf(spillingCudaKernel);
  EXPECT_EQ(k.registers, 32u);
  EXPECT_GT(k.stackBytes, 0u);
}

TEST(CudaResources, RefusesOtherBytes) {
  std::vector<std::byte> bytes(100, std::byte{7});
  EXPECT_THROW(readCudaResources("x", bytes), Error);
  std::vector<std::byte> object = compileCudaObject("k", source, headers, {.arch = "sm_90a"});
  for (size_t size = 0; size < object.size(); size += 97) // any cut is found, none crashes
    EXPECT_THROW(readCudaResources("x", std::span(object).first(size)), Error) << size;
}

TEST(CudaInspect, InstructionsStandWithTheirKernel) {
  std::vector<std::byte> object = compileCudaObject("scale", source, headers, {.arch = "sm_90a"});
  Inspection code = inspectCudaObject("scale", object);
  EXPECT_EQ(code.exports, std::vector<std::string>{"scale"});
  EXPECT_EQ(code.textBytes, resourcesOf(source).codeBytes);
  // 16 bytes each; what fills the section up is not listed or is NOP.
  EXPECT_LE(code.instructions.size(), code.textBytes / 16);
  EXPECT_GT(code.instructions.size(), 10u);
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    EXPECT_EQ(code.instructions[i].function, "scale");
    EXPECT_EQ(code.instructions[i].address, 16 * i);
  }
  EXPECT_GE(code.counts["EXIT"], 1u);
  EXPECT_EQ(code.counts["STS"], 1u);
  EXPECT_EQ(code.counts["LDG.E"], 1u);
  EXPECT_EQ(code.spillBytes, 0u);
  EXPECT_NE(cudaDisassembly("scale", object).find("/*0000*/"), std::string::npos);
}

TEST(CudaInspect, PatternsAreHeldAgainstTheMachineCode) {
  Inspection code =
      inspectCudaObject("scale", compileCudaObject("scale", source, headers, {.arch = "sm_90a"}));
  EXPECT_NO_THROW(checkPatterns("scale", code, {{"FMUL|FFMA", "^STS ", "BAR\\.SYNC"}, {"HGMMA"}}));
  EXPECT_THROW(checkPatterns("scale", code, {{"HGMMA"}, {}}), Error);
  EXPECT_THROW(checkPatterns("scale", code, {{}, {"^STS "}}), Error);
}

TEST(CudaInspect, OtherBytesAreRefused) {
  std::vector<std::byte> bytes(100, std::byte{7});
  EXPECT_THROW(cudaDisassembly("x", bytes), Error);
  EXPECT_THROW(inspectCudaObject("x", bytes), Error);
}

// The runtime's own way to a compiler gives what m3c puts into a plan.
TEST(CudaBuild, TheRuntimeBuildsTheSameBytes) {
  CudaCompileOptions options{.arch = "sm_90a"};
  std::vector<std::byte> expected = compileCudaObject("scale", source, headers, options);
  hal::SourceText text{source, {headers.begin(), headers.end()}, cudaSourceOptions(options)};
  setenv("M3C_NVRTC", nvrtc::libraryFor("sm_90a", "a test").path.c_str(), 1);
  EXPECT_EQ(hal::cuda::buildCuda(text, "scale", "sm_90a"), expected);
  unsetenv("M3C_NVRTC");
}
