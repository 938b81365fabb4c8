// Capsules: kernels of plans with inputs, and the results that an H200 returned for them. They
// replay in the emulator with the same bytes; with a planted fault they do not.
#include "runtime/capsule/Capsule.h"
#include "tests/unit/emulator/Bench.h"

#include <algorithm>
#include <cmath>

using namespace m3c;
using namespace m3c::test;
namespace fs = std::filesystem;

namespace {

const fs::path folder = M3C_CAPSULES;

std::vector<std::string> recorded() {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::vector<CapsuleOutcome> emulated(const Capsule &capsule, uint64_t seed) {
  std::unique_ptr<hal::Device> device =
      hal::openEmulatedDevice(hal::loadEmulator(), {capsule.target, seed, 2});
  return replayCapsule(capsule, *device, true);
}

class Recorded : public testing::TestWithParam<std::string> {};

TEST_P(Recorded, TheEmulatorGivesTheBytesOfTheH200) {
  Capsule capsule = readCapsule(folder / GetParam());
  EXPECT_NE(capsule.madeBy.find("H200"), std::string::npos);
  for (uint64_t seed : {1, 2}) {
    std::vector<CapsuleOutcome> outcomes = emulated(capsule, seed);
    EXPECT_FALSE(outcomes.empty());
    for (const CapsuleOutcome &outcome : outcomes) {
      EXPECT_GT(outcome.elements, 0u);
      EXPECT_EQ(outcome.different, 0u) << outcome.name;
    }
  }
}

std::string testName(std::string name) {
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(c); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Capsules, Recorded, testing::ValuesIn(recorded()),
                         [](const testing::TestParamInfo<std::string> &info) {
                           return testName(info.param);
                         });

/// A fault in the text of a real kernel, or in a device header.
struct KernelFault {
  const char *name, *capsule, *file, *from, *to;
};
void PrintTo(const KernelFault &fault, std::ostream *out) { *out << fault.name; }

constexpr KernelFault kernelFaults[] = {
    {"SwappedOperandLayout", "product-mxfp8-8-w", "fragments.h", "stride + g + 8 * (i / 2)",
     "stride + g + 8 * (i % 2)"},
    {"ScaleOfTheOtherRow", "product-mxfp8-8-w", "fragments.h", "(u32)scales.v[half] + 120",
     "(u32)scales.v[1 - half] + 120"},
    {"SumsReadBeforeTheBarrier", "product-bf16-8-w", "kernel.text",
     "32);  // tile.store_transposed, line 0\n  barrier();",
     "32);  // tile.store_transposed, line 0\n"},
    {"SplitMergeForgetsARescaling", "dense-f32-1-attention_merge", "kernel.text",
     "auto s43 = s41 + s42;", "auto s43 = s41 + x39;"},
    {"TieOfTheLastBlock", "sparse-bf16-1-block_topk", "kernel.text", "bool s104 = i64(0) < v99",
     "bool s104 = i64(1) < v99"},
    {"NormOfHalfTheRow", "product-bf16-8-g", "arithmetic.h", "n > 0; n /= 2", "n > 1; n /= 2"},
};

class Kernels : public testing::TestWithParam<KernelFault> {};

TEST_P(Kernels, WithAFaultAreFound) {
  const KernelFault &fault = GetParam();
  Capsule capsule = readCapsule(folder / fault.capsule);
  std::string *text = fault.file == std::string("kernel.text") ? &capsule.source.text : nullptr;
  for (auto &[name, header] : capsule.source.headers)
    text = name == fault.file ? &header : text;
  ASSERT_TRUE(text);
  size_t at = text->find(fault.from);
  ASSERT_NE(at, std::string::npos) << "the fault has no place in " << fault.file;
  text->replace(at, std::string(fault.from).size(), fault.to);
  try {
    std::vector<CapsuleOutcome> outcomes = emulated(capsule, 1);
    EXPECT_TRUE(std::ranges::any_of(outcomes, [](auto &outcome) { return !outcome.good(); }));
  } catch (const Error &error) {
    EXPECT_NE(error.summary().find("fails in the emulator"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Planted, Kernels, testing::ValuesIn(kernelFaults),
                         [](const testing::TestParamInfo<KernelFault> &info) {
                           return info.param.name;
                         });

TEST(Capsules, AreRefusedByADeviceThatCannotRunThem) {
  Capsule capsule = readCapsule(folder / recorded().front());
  std::unique_ptr<hal::Device> device =
      hal::openEmulatedDevice(hal::loadEmulator(), {"sm90", 1, 1});
  try {
    replayCapsule(capsule, *device, false);
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(error.why().find("sm_90a"), std::string::npos) << error.what();
    EXPECT_NE(error.next().find("--emulate sm90"), std::string::npos) << error.what();
  }
}

TEST(Capsules, ComparisonsHoldTheirTolerance) {
  // One value of the expected results is moved: by less than is allowed, by more, to NaN.
  Capsule capsule = readCapsule(folder / "product-bf16-8-w");
  auto &argument = *std::ranges::find_if(
      capsule.arguments, [](const CapsuleArgument &a) { return a.expected.has_value(); });
  ASSERT_EQ(argument.element, CapsuleArgument::Element::Bf16);
  auto *codes = reinterpret_cast<uint16_t *>(argument.expected->data());
  uint16_t first = codes[0];
  codes[0] = uint16_t(first ^ 1);
  CapsuleOutcome moved = emulated(capsule, 1).front();
  EXPECT_EQ(moved.different, 1u);
  EXPECT_FALSE(moved.good());
  argument.tolerance = moved.worst;
  EXPECT_TRUE(emulated(capsule, 1).front().good());
  codes[0] = 0x7fc0;
  EXPECT_FALSE(emulated(capsule, 1).front().good());
}

} // namespace
