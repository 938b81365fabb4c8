// What every target does with the machine code that it builds.
#include "passes/targets/common/Target.h"
#include "runtime/base/Error.h"

#include <gtest/gtest.h>

using namespace m3c;

namespace {

struct Sample {
  const char *target, *text, *present, *absent;
};

const Sample samples[] = {
    {"x86",
     "extern \"C\" __attribute__((visibility(\"default\"))) void k(float *x) {\n"
     "  for (int i = 0; i < 64; ++i)\n    x[i] = __builtin_fmaf(x[i], x[i], x[i]);\n}\n",
     "vfm?add", "vpdpbusd"},
    {"sm90",
     "extern \"C\" __global__ void k(float *x) {\n"
     "  x[threadIdx.x] = __fmaf_rn(x[threadIdx.x], x[threadIdx.x], x[threadIdx.x]);\n}\n",
     "^FFMA ", "HGMMA"},
};

} // namespace

TEST(Targets, CodeWithoutAnAtomsInstructionIsRefused) {
  for (const Sample &sample : samples) {
    const Target *target = findTarget(sample.target);
    ASSERT_TRUE(target) << sample.target;
    EXPECT_NE(target->inspector().name, "") << target->inspector().absence;
    for (const Chip &chip : target->chips()) {
      std::vector<std::byte> object = target->build("k", sample.text, chip);
      CodeFacts facts = target->inspect("k", object, {sample.present});
      EXPECT_GT(facts.codeBytes, 0u) << chip.name;
      EXPECT_EQ(facts.spills, 0u) << chip.name;
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
