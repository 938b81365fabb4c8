// Capsules as folders: what is written is read again, and what is damaged or cannot be is refused.
#include "runtime/base/Error.h"
#include "runtime/capsule/Capsule.h"
#include "tests/unit/base/TempFolder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

using namespace m3c;
using namespace m3c::test;
namespace fs = std::filesystem;

namespace {

const fs::path recorded = M3C_CAPSULE;

TEST(Capsules, KeepWhatTheyAreGiven) {
  TempFolder temp;
  Capsule capsule = readCapsule(recorded);
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
    fs::copy(recorded, copy, fs::copy_options::recursive);
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
    Capsule capsule = readCapsule(recorded);
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

} // namespace
