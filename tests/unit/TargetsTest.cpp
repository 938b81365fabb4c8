// What every target does with the machine code that it builds.
#include "compiler/toolchains/CudaCompiler.h"
#include "passes/targets/common/Target.h"
#include "runtime/base/Error.h"
#include "tests/unit/SpillingKernel.h"

#include <gtest/gtest.h>

using namespace m3c;

namespace {

struct Sample {
  const char *target, *text, *present, *absent;
};

constexpr const char *cudaText =
    "extern \"C\" __global__ void k(float *x) {\n"
    "  x[threadIdx.x] = __fmaf_rn(x[threadIdx.x], x[threadIdx.x], x[threadIdx.x]);\n}\n";

const Sample samples[] = {
    {"x86",
     "extern \"C\" __attribute__((visibility(\"default\"))) void k(float *x) {\n"
     "  for (int i = 0; i < 64; ++i)\n    x[i] = __builtin_fmaf(x[i], x[i], x[i]);\n}\n",
     "vfm?add", "vpdpbusd"},
    {"sm90", cudaText, "^FFMA ", "HGMMA"},
    {"sm100", cudaText, "^FFMA ", "UTCQMMA"},
    {"sm107", cudaText, "^FFMA ", "UTCQMMA"},
    {"gfx950",
     "extern \"C\" __attribute__((global)) void k(float *x) {\n"
     "  const int i = __builtin_amdgcn_workitem_id_x();\n"
     "  x[i] = __builtin_fmaf(x[i], x[i], x[i]);\n}\n",
     "^v_fma", "v_mfma"},
};

} // namespace

TEST(Targets, CodeWithoutAnAtomsInstructionIsRefused) {
  for (const Sample &sample : samples) {
    const Target *target = findTarget(sample.target);
    ASSERT_TRUE(target) << sample.target;
    EXPECT_NE(target->inspector().name, "") << target->inspector().absence;
    for (const Chip &chip : target->chips()) {
      std::vector<std::byte> object = target->build("k", sample.text, chip);
      EXPECT_NO_THROW(target->inspect("k", object, {sample.present}));
      CodeFacts facts = target->facts("k", object);
      EXPECT_GT(facts.codeBytes, 0u) << chip.name;
      EXPECT_EQ(facts.spillBytes, 0u) << chip.name;
      try {
        target->inspect("k for " + chip.name, object, {sample.present, sample.absent});
        ADD_FAILURE() << chip.name << ": nothing was thrown";
      } catch (const Error &error) {
        EXPECT_EQ(error.summary(),
                  "kernel k for " + chip.name + " lacks the instruction /" + sample.absent + "/");
      }
    }
  }
}

// More values than there are registers, all alive at once.
TEST(Targets, SpillsAreSeenInTheObject) {
  const std::string x86 = R"(
#include <immintrin.h>
extern "C" __attribute__((visibility("default"))) void k(float *x, int n) {
  __m256 a[40];
#pragma clang loop unroll(full)
  for (int i = 0; i < 40; ++i)
    a[i] = _mm256_loadu_ps(x + 8 * i);
  for (int j = 0; j < n; ++j) {
#pragma clang loop unroll(full)
    for (int i = 0; i < 40; ++i)
      a[i] = _mm256_fmadd_ps(a[i], a[(i + 7) % 40], a[(i + 13) % 40]);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 40; ++i)
    _mm256_storeu_ps(x + 8 * i, a[i]);
})";
  for (const auto &[name, text] : {std::pair("x86", x86), {"sm90", spillingCudaKernel}}) {
    const Target *target = findTarget(name);
    const Chip &chip = target->chips().front();
    CodeFacts facts = target->facts("k", target->build("k", text, chip));
    EXPECT_GT(facts.spillBytes, 0u) << name;
    EXPECT_EQ(facts.spillBytes % 4, 0u) << name;
  }
}

// Chips that may build a target's sources themselves: their compilers take the device headers.
TEST(Targets, SourcesBuildForEveryChipThatTheyAreFor) {
  const Target *target = findTarget("sm90");
  SourceBuild source = target->sourceBuild();
  EXPECT_GE(source.features.size(), 2u);
  EXPECT_EQ(source.options.front(), "--std=c++20");
  for (const std::string &feature : source.features)
    EXPECT_NO_THROW(toolchains::compileCudaObject(
        "k", "#include \"tile.h\"\nextern \"C\" __global__ void k(float *x) { x[0] = 1; }\n",
        target->deviceHeaders(), {.arch = feature + "a"}))
        << feature;
}
