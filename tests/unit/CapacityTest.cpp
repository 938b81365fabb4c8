// The published pair of the capacity formula, and the properties that a wrong formula would break.
#include "compiler/report/Capacity.h"
#include "runtime/base/Error.h"

#include <gtest/gtest.h>

using namespace m3c;

namespace {

// The model vendor's figures: 4 chips of 288 GB, 262,144 tokens: 76 and 28 sequences.
CapacityQuery published() { return {"b300", 288e9, 0.95, 4, parseParallelism("dep4"), 262144, ""}; }

TEST(Capacity, PublishedPair) {
  std::vector<ModelFootprint> models = builtInFootprints();
  ASSERT_EQ(models.size(), 2u);
  CapacityRow m31 = capacityRow(models[0], published()), m3 = capacityRow(models[1], published());
  EXPECT_EQ(m31.cache, "nvfp4");
  EXPECT_EQ(m31.kvBytesPerToken, 34560);
  EXPECT_EQ(m31.indexBytesPerToken, 4320);
  EXPECT_NEAR(m31.routedBytes, 232.38e9, 5e6); // half of the last digit printed
  EXPECT_NEAR(m31.restBytes, 17.72e9, 5e6);
  EXPECT_EQ(m31.sequencesPerGroup, 19);
  EXPECT_EQ(m31.sequences, 76);
  EXPECT_EQ(m3.cache, "fp8");
  EXPECT_EQ(m3.kvBytesPerToken, 61440);
  EXPECT_EQ(m3.indexBytesPerToken, 7680);
  EXPECT_NEAR(m3.routedBytes, 426.03e9, 5e6);
  EXPECT_NEAR(m3.restBytes, 25.47e9, 5e6);
  EXPECT_EQ(m3.sequences, 28);
}

TEST(Capacity, TensorParallelRanksShareHeadsAndKeepTheIndexKey) {
  CapacityQuery query = published();
  query.parallel = parseParallelism("tp4");
  CapacityRow row = capacityRow(builtInFootprints()[0], query);
  EXPECT_EQ(row.kvBytesPerTokenChip, 34560 / 4);
  EXPECT_EQ(row.indexBytesPerTokenChip, 4320);
  EXPECT_DOUBLE_EQ(row.weightBytesChip, 250.1e9 / 4);
  // floor((273.6e9 - 62.525e9) / (12960 * 262144)) = floor(62.13)
  EXPECT_EQ(row.sequences, 62);
  query.parallel = parseParallelism("tp8"); // more ranks than heads: a head on every rank
  query.count = 8;
  EXPECT_EQ(capacityRow(builtInFootprints()[0], query).kvBytesPerTokenChip, 34560 / 4);
}

TEST(Capacity, ReplicasMultiplyAndHalfTheContextAtLeastDoubles) {
  CapacityQuery query = published();
  query.count = 8;
  EXPECT_EQ(capacityRow(builtInFootprints()[0], query).sequences, 152);
  query = published();
  query.context /= 2;
  EXPECT_GE(capacityRow(builtInFootprints()[0], query).sequences, 152);
}

TEST(Capacity, AContextLongerThanTheModelsIsRefused) {
  CapacityQuery query = published();
  query.context = 1048577;
  EXPECT_THROW(capacityRow(builtInFootprints()[0], query), Error);
  query.context = 1048576;
  EXPECT_GT(capacityRow(builtInFootprints()[0], query).sequences, 0);
}

TEST(Capacity, TooSmallAMemoryHoldsNothing) {
  CapacityQuery query = published();
  query.memoryBytes = 80e9; // 76 GB usable, 75.8 GB of weights: a few tokens
  EXPECT_EQ(capacityRow(builtInFootprints()[0], query).sequences, 0);
  query.memoryBytes = 60e9;
  CapacityRow row = capacityRow(builtInFootprints()[0], query);
  EXPECT_LT(row.freeBytesChip, 0);
  EXPECT_EQ(row.sequences, 0);
  EXPECT_NE(capacityText({}, {row}).find("no room"), std::string::npos);
}

TEST(Capacity, ParallelismNames) {
  EXPECT_EQ(parseParallelism("dep8").data, 8);
  EXPECT_EQ(parseParallelism("tp2dp4").chips(), 8);
  for (const char *bad :
       {"", "dep", "dep0", "tp-1", "tp2x", "dep4tp2", "4", "tp99999999999999999999"})
    EXPECT_THROW(parseParallelism(bad), Error) << bad;
  CapacityQuery query = published();
  query.count = 6;
  EXPECT_THROW(capacityRow(builtInFootprints()[0], query), Error);
  query = published();
  query.cache = "fp4";
  EXPECT_THROW(capacityRow(builtInFootprints()[0], query), Error);
}

TEST(Capacity, JsonHasEveryFigureOnce) {
  std::vector<ModelFootprint> models = builtInFootprints();
  nlohmann::ordered_json json = capacityJson(models, {capacityRow(models[0], published())});
  ASSERT_EQ(json["rows"].size(), 1u);
  EXPECT_EQ(json["rows"][0]["sequences"], 76);
  EXPECT_EQ(json["rows"][0]["bytes_per_token"], 38880);
  EXPECT_GE(json["assumptions"].size(), 8u);
}

} // namespace
