// What bounds a kernel: work items of a unit, instructions by pipe, bytes and operations.
#include "compiler/report/PlanCost.h"
#include "passes/targets/common/nvidia/Pipes.h"
#include "runtime/base/Error.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <gtest/gtest.h>

using namespace m3c;

namespace {

/// Of 64 Ki registers, 2,048 threads, 228 KiB and 32 work items.
const ChipFacts facts = [] {
  ChipFacts facts;
  facts.registers = 64 * 1024;
  facts.unitSharedBytes = 228 * 1024;
  facts.unitThreads = 2048;
  facts.unitItems = 32;
  facts.reservedBytes = 1024;
  return facts;
}();

Occupancy occupancy(uint32_t threads, uint32_t registers, uint64_t shared) {
  flatbuffers::FlatBufferBuilder builder;
  plan::CodeObjectT object;
  object.threads = threads;
  object.registers = registers;
  object.shared_bytes = shared;
  builder.Finish(plan::CodeObject::Pack(builder, &object));
  return occupancyOf(facts, *flatbuffers::GetRoot<plan::CodeObject>(builder.GetBufferPointer()));
}

// The vendor's occupancy rules by hand: registers go to a thread in eights.
TEST(Cost, OccupancyNamesWhatAllowsNoMore) {
  EXPECT_EQ(occupancy(256, 32, 0).items, 8);
  EXPECT_EQ(occupancy(256, 32, 0).limit, "threads");
  EXPECT_EQ(occupancy(256, 65, 0).items, 3); // 72 registers of 256 threads, three times
  EXPECT_EQ(occupancy(256, 65, 0).limit, "registers");
  EXPECT_EQ(occupancy(256, 64, 0).items, 4);
  EXPECT_EQ(occupancy(288, 32, 112 * 1024).items, 2);
  EXPECT_EQ(occupancy(288, 32, 114 * 1024).items, 1); // with a KiB of the system each
  EXPECT_EQ(occupancy(288, 32, 114 * 1024).limit, "shared memory");
  EXPECT_EQ(occupancy(32, 16, 0).items, 32);
  EXPECT_EQ(occupancy(32, 16, 0).limit, "items");
}

TEST(Cost, TheLongestPrefixNamesThePipe) {
  std::map<std::string, unsigned> counts = countPipes(nvidiaPipes, {{"HMMA.16816.F32", 5},
                                                                    {"UTCQMMA", 1},
                                                                    {"UIADD3", 2},
                                                                    {"LDG.E.128", 3},
                                                                    {"LDTM.x32", 1},
                                                                    {"FHFMA2", 2},
                                                                    {"F2FP.F16.E4M3.UNPACK_B", 4},
                                                                    {"NONESUCH", 1}});
  std::map<std::string, unsigned> expected = {
      {"matrix", 6}, {"uniform", 2},    {"memory", 3}, {"tensor memory", 1},
      {"FP32", 2},   {"conversion", 4}, {"other", 1}};
  EXPECT_EQ(counts, expected);
}

TEST(Cost, CountsEachKindOfAStep) {
  plan::PlanFile file = plan::PlanFile::fromBytes(test::toyPlan().bytes(), "toy");
  nlohmann::ordered_json cost = costJson(file, "", parseShape("2x1@300"));
  EXPECT_EQ(cost["bucket_rows"], 4);
  ASSERT_EQ(cost["kinds"].size(), 3u);
  const nlohmann::ordered_json &insert = cost["kinds"][0], &head = cost["kinds"][2];
  EXPECT_EQ(insert["kind"], "insert");
  EXPECT_EQ(insert["written_bytes"], 2 * 512 / 128); // a token of each sequence
  EXPECT_EQ(head["weight_and_cache_bytes"], 4 * test::toyVocab);
  EXPECT_EQ(head["written_bytes"], 2 * 4 * test::toyVocab); // logits of two rows
  EXPECT_FALSE(head.contains("bound"));                     // no such chip
  EXPECT_NE(costText(cost).find("not known"), std::string::npos);
  EXPECT_EQ(defaultCostShape(file).requests, 1u);
  EXPECT_THROW(costJson(file, "nope", parseShape("2x1@300")), Error);
  EXPECT_THROW(costJson(file, "", parseShape("99x1@300")), Error);
}

/// The last token stands at the last position.
TEST(Cost, ShapesEndAtTheModelsLastPosition) {
  test::ToyOptions options;
  options.maxPositions = 300;
  plan::PlanFile file = plan::PlanFile::fromBytes(test::toyPlan(options).bytes(), "toy");
  EXPECT_EQ(defaultCostShape(file).context, 299u);
  EXPECT_NO_THROW(costJson(file, "", defaultCostShape(file)));
  EXPECT_NO_THROW(costJson(file, "", parseShape("1x3@297")));
  for (const char *beyond : {"1x3@298", "1x1@300", "1x1@18446744073709551615"})
    EXPECT_THROW(costJson(file, "", parseShape(beyond)), Error) << beyond;
}

} // namespace
