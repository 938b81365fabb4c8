// Capsules: kernels of plans with inputs, and the results that an H200 returned for them. They
// replay in the emulator with the same bytes; with a planted fault they do not.
#include "runtime/capsule/Capsule.h"
#include "tests/unit/base/TempFolder.h"
#include "tests/unit/emulator/Bench.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

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

TEST(Capsules, KeepWhatTheyAreGiven) {
  TempFolder temp;
  Capsule capsule = readCapsule(folder / recorded().front());
  writeCapsule(capsule, temp.path() / "copy");
  Capsule copy = readCapsule(temp.path() / "copy");
  EXPECT_EQ(copy.kernel, capsule.kernel);
  EXPECT_EQ(copy.code, capsule.code);
  EXPECT_EQ(copy.source.text, capsule.source.text);
  EXPECT_EQ(copy.source.headers, capsule.source.headers);
  EXPECT_EQ(copy.shape.sharedBytes, capsule.shape.sharedBytes);
  ASSERT_EQ(copy.arguments.size(), capsule.arguments.size());
  for (size_t i = 0; i < copy.arguments.size(); ++i) {
    EXPECT_EQ(copy.arguments[i].input, capsule.arguments[i].input);
    EXPECT_EQ(copy.arguments[i].expected, capsule.arguments[i].expected);
    EXPECT_EQ(copy.arguments[i].same, capsule.arguments[i].same);
  }
}

TEST(Capsules, DamageIsNamed) {
  TempFolder temp;
  auto damaged = [&](auto damage) -> std::string {
    fs::path copy = temp.path() / "copy";
    fs::remove_all(copy);
    fs::copy(folder / recorded().front(), copy, fs::copy_options::recursive);
    damage(copy);
    try {
      readCapsule(copy);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  std::string flipped = damaged([](const fs::path &copy) {
    fs::permissions(copy / "argument0.in", fs::perms::owner_all);
    std::fstream(copy / "argument0.in", std::ios::in | std::ios::out | std::ios::binary)
        .put('\x55');
  });
  EXPECT_NE(flipped.find("argument0.in"), std::string::npos) << flipped;
  EXPECT_NE(flipped.find("digest"), std::string::npos) << flipped;
  std::string cut = damaged([](const fs::path &copy) {
    fs::permissions(copy / "code.bin", fs::perms::owner_all);
    fs::resize_file(copy / "code.bin", 100);
  });
  EXPECT_NE(cut.find("code.bin"), std::string::npos) << cut;
  EXPECT_NE(cut.find("100 bytes"), std::string::npos) << cut;
  std::string missing = damaged([](const fs::path &copy) { fs::remove(copy / "kernel.text"); });
  EXPECT_NE(missing.find("kernel.text"), std::string::npos) << missing;
  std::string json = damaged([](const fs::path &copy) {
    fs::permissions(copy / "capsule.json", fs::perms::owner_all);
    fs::resize_file(copy / "capsule.json", 50);
  });
  EXPECT_NE(json.find("capsule.json"), std::string::npos) << json;
}

/// capsule.json has no digest of its own: what it says is checked before anything runs.
TEST(Capsules, WhatCannotBeIsRefused) {
  TempFolder temp;
  auto refusal = [&](auto change) -> std::string {
    Capsule capsule = readCapsule(folder / recorded().front());
    change(capsule);
    writeCapsule(capsule, temp.path() / "changed");
    try {
      readCapsule(temp.path() / "changed");
    } catch (const Error &error) {
      return error.why();
    }
    return "";
  };
  auto bringsResults = [](Capsule &capsule) -> CapsuleArgument & {
    return *std::ranges::find_if(capsule.arguments,
                                 [](const auto &argument) { return bool(argument.expected); });
  };
  EXPECT_EQ(refusal([](Capsule &) {}), "");
  for (uint32_t threads : {0u, 4096u})
    EXPECT_NE(refusal([&](Capsule &capsule) { capsule.shape.threads = threads; }).find("threads"),
              std::string::npos);
  EXPECT_NE(refusal([](Capsule &capsule) { capsule.shape.cluster = 0; }).find("clusters of 0"),
            std::string::npos);
  // A buffer of an argument that has none of its own, and one of the argument itself.
  for (bool number : {true, false}) {
    std::string why = refusal([&](Capsule &capsule) {
      CapsuleArgument first;
      first.name = "first";
      first.isBuffer = !number;
      if (!number)
        first.same = 0;
      CapsuleArgument second = first;
      second.isBuffer = true;
      second.same = 0;
      capsule.arguments = {first, second};
    });
    EXPECT_NE(why.find("earlier argument that brings a buffer"), std::string::npos) << why;
  }
  EXPECT_NE(refusal([&](Capsule &capsule) {
              CapsuleArgument &argument = bringsResults(capsule);
              argument.input.resize(argument.input.size() + 1);
            }).find("another size"),
            std::string::npos);
  EXPECT_NE(refusal([&](Capsule &capsule) {
              CapsuleArgument &argument = bringsResults(capsule);
              argument.element = CapsuleArgument::Element::F32;
              argument.input.resize(6);
              argument.expected->resize(6);
            }).find("whole number"),
            std::string::npos);
}

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
