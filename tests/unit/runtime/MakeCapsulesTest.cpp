// Capsules made of a plan's launches: those of the toy plan on the CPU, which also replays them.
#include "runtime/capsule/MakeCapsules.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/Drivers.h"
#include "tests/unit/base/TempFolder.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

using namespace m3c;
using namespace m3c::test;

namespace {

/// Of the toy plan, with its tables changed; the capsules that were made, by folder.
std::vector<MadeCapsule> make(const std::filesystem::path &folder, const CapsuleRequest &request,
                              const std::function<void(plan::TablesT &)> &change = {}) {
  plan::PlanWriter writer;
  plan::TablesT tables = toyTables(writer.addSection(plan::SectionKind::Code, testKernelCode()));
  if (change)
    change(tables);
  writer.setTables(tables);
  writer.setManifest("{}");
  hal::DeviceOptions options{1, false};
  options.device = "host";
  Engine engine(plan::PlanFile::fromBytes(writer.bytes(), "toy"), options);
  std::vector<MadeCapsule> all;
  makeCapsules(engine, request, folder, [&](const MadeCapsule &made) { all.push_back(made); });
  return all;
}

std::vector<CapsuleOutcome> replay(const Capsule &capsule) {
  hal::DeviceOptions options{1, false};
  options.device = "host";
  return replayCapsule(capsule, *hal::openDevice(options), false);
}

TEST(MakeCapsules, EveryKernelAndShapeReplays) {
  TempFolder temp;
  std::vector<MadeCapsule> made = make(temp.path(), {"all", 9, 300, 1, false});
  ASSERT_EQ(made.size(), 9u); // three kernels, three buckets
  for (const MadeCapsule &one : made) {
    std::vector<CapsuleOutcome> outcomes = replay(readCapsule(temp.path() / one.folder));
    EXPECT_FALSE(outcomes.empty()) << one.folder;
    for (const CapsuleOutcome &outcome : outcomes) {
      EXPECT_TRUE(outcome.good()) << one.folder << " " << outcome.name;
      EXPECT_EQ(outcome.different, 0u);
      EXPECT_EQ(outcome.tolerance, 0); // the code itself made them
    }
  }
}

TEST(MakeCapsules, HoldOnlyWhatTheLaunchReaches) {
  TempFolder temp;
  make(temp.path(), {"toy_insert", 9, 300, 1, false});
  Capsule capsule = readCapsule(temp.path() / "toy_insert-16");
  const CapsuleArgument &pool = capsule.arguments.at(5);
  // Pages of three sequences, 301, 7 across the end of the first page, 1 row; half of each page.
  EXPECT_EQ(pool.parts.size(), 3u + 2u + 1u);
  for (const CapsulePart &part : pool.parts)
    EXPECT_EQ(part.bytes, 512u);
  ASSERT_TRUE(pool.expected);
  EXPECT_NE(*pool.expected, pool.input);
  size_t changed = 0; // a token for each row
  for (size_t i = 0; i < pool.input.size(); i += 4)
    changed += !std::equal(&pool.input[i], &pool.input[i] + 4, &(*pool.expected)[i]);
  EXPECT_EQ(changed, 9u);
  EXPECT_FALSE(capsule.arguments.at(0).expected); // what is only read has no results
  capsule.arguments[5].expected->at(5) ^= std::byte(1);
  std::vector<CapsuleOutcome> outcomes = replay(capsule);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_FALSE(outcomes[0].good());
}

TEST(MakeCapsules, AnotherSeedIsAnotherInput) {
  TempFolder temp;
  make(temp.path() / "a", {"toy_logits", 9, 300, 1, false});
  make(temp.path() / "b", {"toy_logits", 9, 300, 1, false});
  make(temp.path() / "c", {"toy_logits", 9, 300, 2, false});
  auto tokens = [&](const char *name) {
    return readCapsule(temp.path() / name / "toy_logits-16").arguments.at(1).input;
  };
  EXPECT_EQ(tokens("a"), tokens("b"));
  EXPECT_TRUE(tokens("a") != tokens("c"));
}

std::string refusal(const CapsuleRequest &request,
                    const std::function<void(plan::TablesT &)> &change = {}) {
  TempFolder temp;
  try {
    make(temp.path(), request, change);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(MakeCapsules, WhatCannotBeIsRefused) {
  CapsuleRequest all{"all", 9, 300, 1, false};
  EXPECT_EQ(refusal(all), "");
  EXPECT_NE(refusal({"nope", 9, 300, 1, false}).find("toy_insert"), std::string::npos);
  EXPECT_NE(refusal({"all", 9, 5000, 1, false}).find("1024 positions"), std::string::npos);
  auto arg = [](plan::TablesT &tables, size_t launch, size_t i) -> plan::ArgT & {
    return *tables.targets[0]->buckets[0]->launches[launch]->args[i];
  };
  std::string unknown = refusal(
      all, [&](plan::TablesT &tables) { arg(tables, 1, 7).access = plan::Access::Unknown; });
  EXPECT_NE(unknown.find("does not say what toy_taps does with argument 7"), std::string::npos)
      << unknown;
  std::string changes =
      refusal(all, [&](plan::TablesT &tables) { arg(tables, 1, 7).access = plan::Access::Read; });
  EXPECT_NE(changes.find("only reads"), std::string::npos) << changes;
}

// Two units in the last place of the largest value, and no more.
TEST(MakeCapsules, ToleranceFollowsTheLargestValue) {
  float values[] = {0.5f, -4.0f, INFINITY, NAN};
  auto bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(capsuleTolerance(CapsuleArgument::Element::F32, bytes), 4.0 / 2048);
  EXPECT_EQ(capsuleTolerance(CapsuleArgument::Element::Bytes, bytes), 0);
  uint16_t codes[] = {0x4080, 0x3f80, 0x7fc0}; // 4, 1, NaN
  EXPECT_EQ(capsuleTolerance(CapsuleArgument::Element::Bf16, std::as_bytes(std::span(codes))),
            4.0 / 128);
}

} // namespace
