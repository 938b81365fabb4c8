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

/// What reading the folder says is wrong; nothing when it is sound.
std::string damageOf(const fs::path &folder) {
  try {
    readCapsule(folder);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

/// Every file by each kind of damage: the file is named, and what is wrong with it.
TEST(Capsules, DamageIsNamed) {
  TempFolder temp;
  fs::path copy = temp.path() / "copy";
  auto damaged = [&](const std::string &file, auto damage) {
    fs::remove_all(copy);
    fs::copy(recorded, copy, fs::copy_options::recursive);
    fs::permissions(copy / file, fs::perms::owner_all);
    damage(copy / file);
    std::string said = damageOf(copy);
    EXPECT_NE(said.find(file), std::string::npos) << file << ": " << said;
    return said;
  };
  auto flip = [](const fs::path &file) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    char first = char(bytes.get());
    bytes.seekp(0);
    bytes.put(char(first ^ 0x10));
  };
  size_t files = 0;
  for (const auto &entry : fs::directory_iterator(recorded)) {
    std::string file = entry.path().filename();
    damaged(file, [](const fs::path &path) { fs::remove(path); });
    if (file == "capsule.json")
      continue;
    ++files;
    EXPECT_NE(damaged(file, flip).find("digest"), std::string::npos);
    std::string cut = damaged(file, [](const fs::path &path) { fs::resize_file(path, 1); });
    EXPECT_NE(cut.find("1 bytes"), std::string::npos) << cut;
  }
  EXPECT_GT(files, 5u);
  damaged("capsule.json", [](const fs::path &path) { fs::resize_file(path, 50); });
  damaged("capsule.json", flip);
}

/// capsule.json with one text replaced by another; what is then said.
std::string edited(const std::string &from, const std::string &to) {
  TempFolder temp;
  fs::path copy = temp.path() / "copy";
  fs::copy(recorded, copy, fs::copy_options::recursive);
  fs::path json = copy / "capsule.json";
  std::ifstream in(json);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  fs::permissions(json, fs::perms::owner_all);
  std::ofstream(json) << text;
  return damageOf(copy);
}

TEST(Capsules, DescriptionsThatCannotBeAreNamed) {
  std::pair<std::string, std::string> cases[] = {
      {"\"m3c capsule 1\"", "\"m3c capsule 9\""},
      {"\"grid\"", "\"gird\""},
      {"\"buffer\"", "\"puffer\""},
      {"\"bf16\"", "\"bf17\""},
      {"\"argument0.in\"", "\"../argument0.in\""},
      {"\"threads\": ", "\"threads\": -"},
      {"\"value\": ", "\"offset\": 80, \"value\": "},
      {"\"value\": 0", "\"value\": 0.5"},
      {"\"value\": 0", "\"value\": -8"},
      {"\"value\": 0", "\"value\": 99999999"},
      {"\"grid\": [", "\"grid\": [1, "},
      {"\"grid\": [", "\"grid\": 7, \"gird\": ["},
      {"\"kernel\": ", "\"kernel\": 7, \"x\": "},
      {"\"file\": ", "\"file\": [], \"x\": "},
      {"\"features\": [", "\"features\": [true, "},
      {"\"tolerance\": ", "\"tolerance\": -1, \"x\": "},
      {"\"arguments\": [", "\"parameters\": 2, \"arguments\": ["}};
  const char *said[] = {
      "m3c capsule 1",
      "grid is missing",
      "neither",
      "none of",
      "lie in its folder",
      "threads: a whole number",
      "offset",
      "arguments[0].value: a whole number from 0 to 18446744073709551615 expected, found 0.5",
      "found -8",
      "beyond the buffer",
      "grid has 4 numbers",
      "grid: a list expected, found 7",
      "kernel: a text expected, found 7",
      "arguments[0].input.file: a text expected, found []",
      "features[0]: a text expected, found true",
      "tolerance: a number that is not negative expected, found -1",
      "2 were written"};
  for (size_t i = 0; i < std::size(cases); ++i) {
    std::string found = edited(cases[i].first, cases[i].second);
    EXPECT_NE(found.find(said[i]), std::string::npos) << cases[i].first << ": " << found;
    EXPECT_NE(found.find("damaged"), std::string::npos) << found;
  }
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
  EXPECT_NE(refusal([](Capsule &capsule) {
              capsule.shape.sharedBytes = 1'000'000'000;
            }).find("1000000000 shared_bytes"),
            std::string::npos);
  // Launches that would not end, or would do nothing.
  EXPECT_NE(refusal([](Capsule &capsule) {
              capsule.grid = {1'000'000, 1'000'000, 1};
            }).find("1000000 x 1000000 x 1 work items"),
            std::string::npos);
  EXPECT_NE(refusal([](Capsule &capsule) { capsule.grid.y = 0; }).find("grid[1]"),
            std::string::npos);
  // Nothing to judge by, which would pass.
  EXPECT_NE(refusal([](Capsule &capsule) { capsule.arguments.clear(); }).find("no argument"),
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

TEST(Capsules, PartsKeepTheirPlaces) {
  TempFolder temp;
  Capsule capsule = readCapsule(recorded);
  CapsuleArgument &argument = capsule.arguments[0];
  argument.input.assign(24, std::byte(7));
  argument.expected.reset();
  argument.parts = {{16, 8}, {64, 16}};
  argument.size = 96;
  auto written = [&] {
    writeCapsule(capsule, temp.path() / "parts");
    return damageOf(temp.path() / "parts");
  };
  EXPECT_EQ(written(), "");
  Capsule copy = readCapsule(temp.path() / "parts");
  ASSERT_EQ(copy.arguments[0].parts.size(), 2u);
  EXPECT_EQ(copy.arguments[0].parts[1].offset, 64u);
  EXPECT_EQ(copy.arguments[0].bufferBytes(), 96u);
  argument.size = 79; // the last part ends behind it
  EXPECT_NE(written().find("ascend"), std::string::npos);
  argument.size = UINT64_MAX;
  EXPECT_NE(written().find("too large"), std::string::npos);
  argument.size = 96;
  argument.parts[1].offset = 20;
  EXPECT_NE(written().find("ascend"), std::string::npos);
  argument.parts = {{16, 8}};
  EXPECT_NE(written().find("its input 24"), std::string::npos);
}

TEST(Capsules, UnwrittenBuffersHaveNoFile) {
  TempFolder temp;
  Capsule capsule = readCapsule(recorded);
  capsule.arguments[0].input.assign(40, std::byte(0xff));
  capsule.arguments[0].expected.reset();
  writeCapsule(capsule, temp.path() / "copy");
  EXPECT_FALSE(fs::exists(temp.path() / "copy/argument0.in"));
  EXPECT_EQ(readCapsule(temp.path() / "copy").arguments[0].input, capsule.arguments[0].input);
}

} // namespace
