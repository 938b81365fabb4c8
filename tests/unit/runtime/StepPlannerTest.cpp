// The step planner and the page pool: pure arithmetic, checked over many shapes.
#include "runtime/schedule/StepPlanner.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/kv/PagePool.h"
#include "runtime/plan/PlanFile.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace m3c;

namespace {

plan::PlanFile planWithBuckets(std::vector<std::pair<uint32_t, uint32_t>> sizes) {
  plan::PlanWriter writer;
  test::ToyOptions options;
  options.buckets.clear();
  for (auto [rows, logits] : sizes)
    options.buckets.push_back(rows);
  plan::TablesT tables = test::toyTables(writer.addSection(plan::SectionKind::Code, "x"), options);
  for (size_t i = 0; i < sizes.size(); ++i)
    tables.targets[0]->buckets[i]->logit_rows = sizes[i].second;
  writer.setTables(tables);
  writer.setManifest("{}");
  return plan::PlanFile::fromBytes(writer.bytes(), "toy");
}

} // namespace

TEST(StepPlanner, EveryTokenComesOnceAndWithinTheBuckets) {
  std::vector<std::pair<uint32_t, uint32_t>> sizes = {{1, 1}, {8, 4}, {32, 8}};
  plan::PlanFile plan = planWithBuckets(sizes);
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    uint32_t chunk = 1 + random() % 40, batch = 1 + random() % 9;
    StepPlanner planner(*plan.tables().targets()->Get(0), chunk, batch);
    std::vector<Pending> pending(random() % 7);
    for (Pending &item : pending)
      item = {random() % 90, 0, Want(random() % 3)};
    std::vector<uint64_t> logits(pending.size());
    StepPlan step;
    for (int steps = 0; planner.next(pending, step); ++steps) {
      ASSERT_LT(steps, 1000);
      uint32_t rows = 0, logitRows = 0;
      ASSERT_LE(step.slices.size(), batch);
      for (const Slice &slice : step.slices) {
        Pending &item = pending[slice.append];
        ASSERT_EQ(slice.begin, item.done);
        ASSERT_GT(slice.count, 0u);
        ASSERT_LE(slice.count, chunk);
        item.done += slice.count;
        ASSERT_LE(item.done, item.total);
        logits[slice.append] += slice.logits;
        rows += slice.count;
        logitRows += slice.logits;
      }
      ASSERT_EQ(rows, step.rows);
      ASSERT_EQ(logitRows, step.logitRows);
      ASSERT_LE(rows, sizes[step.bucket].first);
      ASSERT_LE(logitRows, sizes[step.bucket].second);
      if (step.bucket > 0)
        ASSERT_TRUE(rows > sizes[step.bucket - 1].first ||
                    logitRows > sizes[step.bucket - 1].second);
    }
    for (size_t i = 0; i < pending.size(); ++i) {
      ASSERT_EQ(pending[i].done, pending[i].total);
      uint64_t expected = pending[i].want == Want::All    ? pending[i].total
                          : pending[i].want == Want::Last ? std::min<uint64_t>(1, pending[i].total)
                                                          : 0;
      ASSERT_EQ(logits[i], expected);
    }
  }
}

TEST(StepPlanner, ZeroChunkIsRefused) {
  plan::PlanFile plan = planWithBuckets({{4, 4}});
  EXPECT_THROW(StepPlanner(*plan.tables().targets()->Get(0), 0, 1), Error);
  EXPECT_THROW(StepPlanner(*plan.tables().targets()->Get(0), 1, 0), Error);
}

TEST(StepPlanner, BlocksAreRoundedToPowersOfTwo) {
  EXPECT_EQ(blocksBucket(0), 8u);
  EXPECT_EQ(blocksBucket(8), 8u);
  EXPECT_EQ(blocksBucket(9), 16u);
  EXPECT_EQ(blocksBucket(8192), 8192u);
}

TEST(PagePool, HandsOutEveryPageOnce) {
  hal::NullDevice device;
  std::unique_ptr<hal::Stream> stream = device.createStream();
  for (bool shuffled : {false, true}) {
    PagePoolOptions options = {.pages = 50, .pageBytes = 64};
    if (shuffled)
      options.shuffleSeed = 3;
    PagePool pool(device, *stream, options);
    std::set<int32_t> seen;
    std::vector<int32_t> order;
    while (std::optional<int32_t> page = pool.allocate()) {
      EXPECT_TRUE(seen.insert(*page).second);
      order.push_back(*page);
    }
    EXPECT_EQ(seen.size(), 50u);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), 49);
    EXPECT_EQ(std::is_sorted(order.begin(), order.end()), !shuffled);
    pool.release(17);
    EXPECT_EQ(pool.freePages(), 1u);
    EXPECT_THROW(pool.release(17), Error);
    EXPECT_THROW(pool.release(50), Error);
    EXPECT_THROW(pool.release(-1), Error);
    EXPECT_EQ(pool.allocate(), 17);
  }
}

TEST(PagePool, PoisonsUnusedPages) {
  hal::NullDevice device;
  std::unique_ptr<hal::Stream> stream = device.createStream();
  PagePool pool(device, *stream, {.pages = 3, .pageBytes = 64, .shuffleSeed = {}, .poison = true});
  EXPECT_EQ(pool.memory().host()[191], std::byte(0xff));
  int32_t page = *pool.allocate();
  stream->fill(pool.memory(), uint64_t(page) * 64, 64, 1);
  pool.release(page);
  EXPECT_EQ(pool.memory().host()[page * 64 + 5], std::byte(0xff));
}

TEST(PagePool, ImpossibleSizesAreRefused) {
  hal::NullDevice device;
  std::unique_ptr<hal::Stream> stream = device.createStream();
  EXPECT_THROW(PagePool(device, *stream, {.pages = 0, .pageBytes = 64}), Error);
  EXPECT_THROW(PagePool(device, *stream, {.pages = 1ull << 31, .pageBytes = 64}), Error);
  EXPECT_THROW(PagePool(device, *stream, {.pages = 1 << 30, .pageBytes = 1ull << 40}), Error);
}
