// Statistics and least work of m3-bench, the limit meter, and the commands over the toy plan.
#include "runtime/base/Error.h"
#include "runtime/drivers/host/HostLimits.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/StepWork.h"
#include "tests/unit/runtime/ToyPlan.h"
#include "tools/m3-bench/Report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

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
  EXPECT_DOUBLE_EQ(summary.least, 1);
  EXPECT_DOUBLE_EQ(summary.spread(), 8.0 / 6);
  EXPECT_EQ(summary.count, 11u);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{1, 2}), 1.5);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{7}, 0.9), 7);
  EXPECT_EQ(summarise({}).count, 0u);
}

TEST(Statistics, IntervalHoldsTheRatioOfMedians) {
  std::vector<double> slow, fast;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(2.0 + 0.01 * (i % 7));
    fast.push_back(1.0 + 0.01 * (i % 5));
  }
  Interval apart = ratioInterval(slow, fast);
  EXPECT_LT(apart.low, median(slow) / median(fast));
  EXPECT_GT(apart.high, median(slow) / median(fast));
  EXPECT_GT(apart.low, 1.9);
  EXPECT_LT(apart.high, 2.1);
  Interval same = ratioInterval(slow, slow);
  EXPECT_LE(same.low, 1);
  EXPECT_GE(same.high, 1);
  // The same samples give the same interval.
  EXPECT_EQ(apart.low, ratioInterval(slow, fast).low);
  // Few samples: the widest ratio.
  Interval few = ratioInterval(std::vector<double>{2, 3}, std::vector<double>{1, 1.5});
  EXPECT_DOUBLE_EQ(few.low, 2 / 1.5);
  EXPECT_DOUBLE_EQ(few.high, 3);
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
  for (auto &bucket : tables.targets[0]->buckets) {
    bucket->launches[2]->args[9]->index = 1;
    bucket->launches[1]->label = "layers.0.attention";
  }
  tables.kernels[0]->family = "index_score";
  tables.kernels[1]->family = "attention";
  writer.setTables(tables);
  writer.setManifest("{}");
  return plan::PlanFile::fromBytes(writer.bytes(), "toy");
}

} // namespace

TEST(Work, CountsWhatALaunchMustDo) {
  plan::PlanFile plan = expertPlan();
  const plan::Bucket &bucket = *plan.tables().targets()->Get(0)->buckets()->Get(0);
  StepShape step{299, 1, 1, {}};
  // One row reads 2 of 8 experts of 1024 bytes and does 2·2·32·64 operations.
  Work experts = launchWork(plan.tables(), *bucket.launches()->Get(2), step);
  EXPECT_DOUBLE_EQ(experts.bytes, 2 * 1024);
  EXPECT_DOUBLE_EQ(experts.operations, 2 * 2 * 32 * 64);
  // 300 index keys of 2 bytes an element, 128 elements.
  Work index = launchWork(plan.tables(), *bucket.launches()->Get(0), step);
  EXPECT_DOUBLE_EQ(index.bytes, 300 * 2);
  EXPECT_DOUBLE_EQ(index.operations, 2 * 300 * 128);
  // Sparse attention: one whole block and the 44 tokens of the newest.
  Work attention = launchWork(plan.tables(), *bucket.launches()->Get(1), step);
  EXPECT_DOUBLE_EQ(attention.bytes, (128 + 44) * 2 * 2);
  EXPECT_DOUBLE_EQ(attention.operations, 4 * (128 + 44) * 128);
}

TEST(Work, CountsRowsOfAPrompt) {
  plan::PlanFile plan = expertPlan();
  const plan::Bucket &bucket = *plan.tables().targets()->Get(0)->buckets()->Get(1);
  StepShape step{0, 3, 1, {}};
  // Rows see 1, 2 and 3 tokens.
  Work index = launchWork(plan.tables(), *bucket.launches()->Get(0), step);
  EXPECT_DOUBLE_EQ(index.operations, 2 * (1 + 2 + 3) * 128);
  EXPECT_DOUBLE_EQ(index.bytes, 3 * 2);
  // Three rows read at most 6 experts; exactly 5 where they were counted, for a label with a layer.
  Work experts = launchWork(plan.tables(), *bucket.launches()->Get(2), step);
  EXPECT_DOUBLE_EQ(experts.bytes, 6 * 1024);
  EXPECT_DOUBLE_EQ(experts.operations, 3 * 2 * 2 * 32 * 64);
}

TEST(Work, FindsTheBucketAndTheLabel) {
  plan::PlanFile plan = expertPlan();
  EXPECT_EQ(bucketFor(*plan.tables().targets()->Get(0), {0, 3, 1, {}})->rows(), 4u);
  EXPECT_EQ(bucketFor(*plan.tables().targets()->Get(0), {0, 17, 1, {}}), nullptr);
  EXPECT_EQ(layerOfLabel("layers.12.route"), 12);
  EXPECT_EQ(kindOfLabel("layers.12.route"), "route");
  EXPECT_EQ(layerOfLabel("head"), -1);
  EXPECT_EQ(kindOfLabel("head"), "head");
}

TEST(Work, ShapesOfSeveralSequences) {
  StepShape shape = parseShape("128x8@8192");
  EXPECT_EQ(shape.requests, 128u);
  EXPECT_EQ(shape.rows, 8u);
  EXPECT_EQ(shape.context, 8192u);
  EXPECT_EQ(shapeName(shape), "8192+128x8");
  EXPECT_EQ(shapeName(parseShape("1x4@130")), "130+4");
  for (const char *text : {"", "8192", "1x1", "x1@1", "1x@1", "0x1@1", "1x0@1", "1x1@0", "1x1@1 ",
                           "1x1@1x1", "-1x1@1", "99999999999x1@1"})
    EXPECT_THROW(parseShape(text), Error) << text;
  // Three sequences do three times the work of one, and share the experts that they choose.
  plan::PlanFile plan = expertPlan();
  const plan::Bucket &bucket = *plan.tables().targets()->Get(0)->buckets()->Get(1);
  StepShape one{299, 1, 1, {}}, three{299, 1, 1, {}, 3};
  for (uint32_t launch : {0u, 1u}) {
    Work single = launchWork(plan.tables(), *bucket.launches()->Get(launch), one);
    Work all = launchWork(plan.tables(), *bucket.launches()->Get(launch), three);
    EXPECT_DOUBLE_EQ(all.bytes, 3 * single.bytes);
    EXPECT_DOUBLE_EQ(all.operations, 3 * single.operations);
  }
  EXPECT_DOUBLE_EQ(launchWork(plan.tables(), *bucket.launches()->Get(2), three).bytes, 6 * 1024);
  EXPECT_EQ(bucketFor(*plan.tables().targets()->Get(0), three)->rows(), 4u);
}

TEST(LimitMeter, MeasuresEveryLevel) {
  hal::LimitMeter meter(1);
  ASSERT_FALSE(meter.levels().empty());
  EXPECT_EQ(meter.levels().back().name, "memory");
  for (const hal::MemoryLevel &level : meter.levels())
    EXPECT_GT(level.probeBytes, 0u) << level.name;
  EXPECT_GT(meter.readBandwidth(meter.levels().back()), 1e6);
  EXPECT_GT(meter.clock(), 1e6);
  for (const std::string &set : hal::arithmeticSets()) {
    // A core does at most two multiply-adds of 16 lanes a cycle; no core has a clock beyond 10 GHz.
    // More than that would mean that the loop was folded away.
    EXPECT_GT(meter.arithmeticPeak(set), 1e6) << set;
    EXPECT_LT(meter.arithmeticPeak(set), 10e9 * 64) << set;
  }
  EXPECT_THROW(meter.arithmeticPeak("abacus"), Error);
}

namespace {

struct BenchTool : testing::Test {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "bench_tool";

  void SetUp() override {
    std::filesystem::create_directories(folder);
    test::toyPlan().publish(folder / "toy.m3plan");
  }
  std::string at(const std::string &name) const { return (folder / name).string(); }
  int run(const std::string &arguments) const {
    int status = std::system(
        fmt::format("{} {} > {}/out 2>&1", M3_BENCH, arguments, folder.string()).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

} // namespace

TEST_F(BenchTool, MeasuresStepsAndKernels) {
  EXPECT_EQ(run("step " + at("toy.m3plan") +
                " --context 20,200 --prompt 30 --tokens 4 --rounds 2 --threads 1 -o " +
                at("step.json")),
            0);
  std::vector<Result> results = readResults(at("step.json"));
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].name, "prefill@30");
  std::ifstream report(at("step.json"));
  EXPECT_EQ(nlohmann::json::parse(report)["plan"]["cache"], "f32");
  EXPECT_EQ(results[0].samples.size(), 2u);
  EXPECT_EQ(results[2].name, "decode@200");
  EXPECT_EQ(results[2].samples.size(), 8u);
  EXPECT_GT(median(results[2].samples), 0);
  EXPECT_EQ(run("kernel " + at("toy.m3plan") + " --context 130 --repeats 2 --threads 1 -o " +
                at("kernel.json")),
            0);
  EXPECT_EQ(readResults(at("kernel.json")).size(), 3u); // one for each launch of the toy plan
  EXPECT_EQ(run("compare " + at("step.json") + " " + at("kernel.json")), 1); // nothing in common
  EXPECT_EQ(run("compare " + at("step.json") + " " + at("toy.m3plan")), 1);
  EXPECT_EQ(run("kernel " + at("toy.m3plan") + " --rows 4000"), 1);
  for (const char *timing : {"place", "chain"}) {
    EXPECT_EQ(run("kernel " + at("toy.m3plan") + " --shape 1x1@130,3x1@200 --repeats 2 --timing " +
                  timing + " --threads 1 -o " + at("shapes.json")),
              0)
        << timing;
    std::vector<Result> shapes = readResults(at("shapes.json"));
    ASSERT_EQ(shapes.size(), 6u);
    EXPECT_TRUE(shapes[0].name.ends_with("@130+1")) << shapes[0].name;
    EXPECT_TRUE(shapes[5].name.ends_with("@200+3x1")) << shapes[5].name;
    EXPECT_EQ(shapes[5].samples.size(), 2u);
  }
  EXPECT_EQ(run("kernel " + at("toy.m3plan") + " --shape 40x1@130"), 1);
  EXPECT_EQ(run("kernel " + at("toy.m3plan") + " --shape 1x1"), 2);
  EXPECT_EQ(run("kernel " + at("toy.m3plan") + " --kinds absent"), 1);
  EXPECT_EQ(run("step " + at("toy.m3plan") + " --context 100000"), 1);
  EXPECT_EQ(run("step"), 2);
}

TEST_F(BenchTool, ComparesByTheIntervalOfMedians) {
  auto report = [&](const std::string &name, double seconds, double rate) {
    Result time{"a", "seconds", false, {}}, speed{"b", "tokens/s", true, {}};
    for (int i = 0; i < 9; ++i) {
      time.samples.push_back(seconds * (1 + 0.001 * i));
      speed.samples.push_back(rate * (1 + 0.001 * i));
    }
    writeReport(at(name), {{"results", {resultJson(time), resultJson(speed)}}});
  };
  report("old.json", 2, 100);
  report("fast.json", 1, 200);
  report("slow.json", 2, 80);
  EXPECT_EQ(run("compare " + at("old.json") + " " + at("fast.json") + " --json"), 0);
  nlohmann::json out = nlohmann::json::parse(std::ifstream(at("out")));
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(out["results"][i]["speed"].get<double>(), 2, 1e-9);
    EXPECT_EQ(out["results"][i]["verdict"], "faster");
  }
  EXPECT_EQ(run("compare " + at("old.json") + " " + at("slow.json")), 1);
  EXPECT_EQ(run("compare " + at("old.json") + " " + at("slow.json") + " --tolerance 0.3"), 0);
}
