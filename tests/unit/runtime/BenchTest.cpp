// Statistics and traffic of m3-bench, and its commands over the toy plan.
#include "runtime/base/Error.h"
#include "runtime/plan/PlanFile.h"
#include "tests/unit/runtime/ToyPlan.h"
#include "tools/m3-bench/Report.h"
#include "tools/m3-bench/Traffic.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>

using namespace m3c;
using namespace m3c::bench;

TEST(Statistics, QuantilesInterpolate) {
  std::vector<double> values;
  for (int i = 11; i >= 1; --i)
    values.push_back(i);
  Summary summary = summarise(values);
  EXPECT_DOUBLE_EQ(summary.median, 6);
  EXPECT_DOUBLE_EQ(summary.low, 2);
  EXPECT_DOUBLE_EQ(summary.high, 10);
  EXPECT_EQ(summary.samples, 11u);
  EXPECT_DOUBLE_EQ(summarise({1, 2}).median, 1.5);
  EXPECT_DOUBLE_EQ(summarise({7}).high, 7);
  EXPECT_THROW(summarise({}), Error);
}

TEST(Statistics, ComparisonKnowsTheDirection) {
  Metric speed = {"s", "tokens/s", true, {5, 100, 95, 105}};
  Metric faster = {"s", "tokens/s", true, {5, 120, 115, 125}};
  EXPECT_DOUBLE_EQ(compare(speed, faster).ratio, 1.2);
  EXPECT_TRUE(compare(speed, faster).clear);
  Metric near = {"s", "tokens/s", true, {5, 102, 99, 106}};
  EXPECT_FALSE(compare(speed, near).clear);
  Metric time = {"t", "s", false, {5, 2, 1.9, 2.1}}, shorter = {"t", "s", false, {5, 1, 0.9, 1.1}};
  EXPECT_DOUBLE_EQ(compare(time, shorter).ratio, 2);
}

namespace {

/// A model with one expert matrix [8 experts][32,64] in 4 bits, and a kernel that reads it.
plan::PlanFile expertPlan() {
  plan::PlanWriter writer;
  plan::TablesT tables = test::toyTables(writer.addSection(plan::SectionKind::Code, "x"));
  tables.model->experts = 8;
  tables.model->experts_per_token = 2;
  auto buffer = std::make_unique<plan::WeightBufferT>();
  buffer->symbol = "layers.0.experts.words";
  buffer->recipe = plan::Recipe::PanelWords;
  buffer->bits = 4;
  buffer->row_length = 64;
  buffer->panels = 16;
  buffer->bytes = 8 * 32 * 32;
  for (uint32_t e = 0; e < 8; ++e) {
    auto piece = std::make_unique<plan::WeightPieceT>();
    piece->tensor = fmt::format("layers.0.experts.{}.w1.weight", e);
    piece->dtype = "U8";
    piece->shape = {32, 32};
    piece->first_panel = 2 * e;
    buffer->pieces.push_back(std::move(piece));
  }
  tables.weights.push_back(std::move(buffer));
  for (auto &bucket : tables.buckets)
    bucket->launches[2]->args[9]->index = 1;
  tables.kernels[0]->family = "index_score";
  tables.kernels[1]->family = "attention";
  writer.setTables(tables);
  writer.setManifest("{}");
  return plan::PlanFile::fromBytes(writer.bytes(), "toy");
}

} // namespace

TEST(Traffic, CountsWhatALaunchMustRead) {
  plan::PlanFile plan = expertPlan();
  const plan::Bucket &bucket = *plan.tables().buckets()->Get(0);
  StepPlan step;
  step.rows = step.logitRows = 1;
  // One row reads 2 of 8 experts of 1024 bytes and does 2·2·32·64 operations.
  Traffic experts = trafficOf(plan.tables(), *bucket.launches()->Get(2), step, 300);
  EXPECT_NEAR(experts.bytes, 2 * 1024, 1e-6);
  EXPECT_NEAR(experts.flops, 2 * 2 * 32 * 64, 1e-6);
  // 300 tokens are 3 pages of one index-key slot of 256 bytes; 300 keys of 128 elements.
  Traffic index = trafficOf(plan.tables(), *bucket.launches()->Get(0), step, 300);
  EXPECT_DOUBLE_EQ(index.bytes, 3 * 256);
  EXPECT_DOUBLE_EQ(index.flops, 2 * 300 * 128);
  // Sparse attention reads 2 of the 3 blocks, K and V, and does 4 operations an element.
  Traffic attention = trafficOf(plan.tables(), *bucket.launches()->Get(1), step, 300);
  EXPECT_DOUBLE_EQ(attention.bytes, 2 * 2 * 256);
  EXPECT_DOUBLE_EQ(attention.flops, 4 * 256 * 128);
  hal::DeviceLimits limits = {1e9, {{"a", 1e12}}};
  const plan::Target &target = *plan.tables().targets()->Get(0);
  EXPECT_DOUBLE_EQ(bestTime(attention, limits, target), 1024 / 1e9);
}

TEST(BenchTool, MeasuresAndCompares) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "bench_tool";
  std::filesystem::create_directories(folder);
  test::toyPlan().publish(folder / "toy.m3plan");
  auto run = [&](const std::string &arguments) {
    int status = std::system(
        fmt::format("{} {} > {}/out 2>&1", M3_BENCH, arguments, folder.string()).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  std::string plan = (folder / "toy.m3plan").string(), a = (folder / "a.json").string();
  EXPECT_EQ(run("step " + plan + " --context 20,200 --decode 4 --repeat 3 --json " + a), 0);
  Report report = Report::read(a);
  ASSERT_EQ(report.metrics.size(), 4u);
  EXPECT_EQ(report.metrics[3].name, "decode at 200");
  EXPECT_GT(report.metrics[3].value.median, 0);
  EXPECT_EQ(report.metrics[3].value.samples, 3u);
  EXPECT_EQ(run("compare " + a + " " + a), 0);
  std::string k = (folder / "k.json").string();
  EXPECT_EQ(run("kernel " + plan + " --context 130,900 --repeat 2 --json " + k), 0);
  EXPECT_EQ(Report::read(k).metrics.size(), 6u);
  EXPECT_EQ(run("compare " + a + " " + plan), 1);
  EXPECT_EQ(run("step"), 2);
}
