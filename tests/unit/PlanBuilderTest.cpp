// A module of the plan dialect becomes a plan file that says the same.
#include "compiler/planfile/PlanBuilder.h"
#include "dialects/plan/Plan.h"
#include "runtime/base/Error.h"
#include "runtime/plan/PlanFile.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace m3c;

namespace {

const char *const text = R"mlir(
plan.weight_buffer @w panel_scales bits = 8 row_length = 4 panels = 2 bytes = 128 pieces = [
  {tensor = "q.weight_scale_inv", dtype = "U8", shape = array<i64: 16, 4>, first_panel = 1 : i64,
   panel_step = 1 : i64, dest_offset = 0 : i64} ]
plan.cache nvfp4 grid e4m3 page_tokens = 128 page_bytes = 55296 slot_bytes = 9216
  kv_offsets = [0, 18432] index_offsets = [-1, 36864]
plan.program @step {
  plan.bucket rows = 2 logit_rows = 1 arena = 4096 + blocks * 64 {
    %s = plan.buffer "scores" size = rows * 0 + blocks * 16 + 0 at 3072 + blocks * 0
    %h = plan.buffer "hidden" size = rows * 1024 + blocks * 0 + 0 at 0 + blocks * 0
    %logits = plan.buffer "logits" size = rows * 0 + blocks * 0 + 1024 at 2048 + blocks * 0
    %w = plan.weight @w offset 64
    %kv = plan.pool offset 18432
    %ids = plan.batch token_ids
    %n = plan.scalar -5
    plan.launch @norm(r %ids : !plan.pointer, w %h : !plan.buffer, w %s : !plan.buffer) grid [2, blocks(4), 1] label "norm"
    plan.tap hidden layer = 1 row_bytes = 1024 %h
    plan.launch @head(r %w : !plan.pointer, rw %kv : !plan.pointer, r %n : i64, w %logits : !plan.buffer) grid [4, 1, 1] label "head"
    plan.output %logits
  }
}
plan.kernel @norm family "norm" params 3
plan.kernel @head family "head" params 4
)mlir";

class PlanBuilderTest : public ::testing::Test {
protected:
  PlanBuilderTest() {
    context.loadDialect<planir::PlanDialect>();
    config.modelType = "test";
    config.layers = 2;
    config.hidden = 256;
    config.heads = 4;
    config.kvHeads = 1;
    config.headDim = 128;
    config.vocab = 256;
    config.maxPositions = 4096;
    config.sparseLayer = {false, true};
    config.moeLayer = {false, false};
    std::vector<std::byte> one(100, std::byte{1}), two(50, std::byte{2});
    kernels["norm"] = {"norm", "rows = 1", 3, 64, "text of norm", {{"a", one}, {"b", two}}};
    kernels["head"] = {"head", "", 4, 0, "", {{"a", one}, {"b", one}}};
  }

  std::vector<std::byte> build(const std::string &source) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
    EXPECT_TRUE(module);
    return buildPlan({config, kernels, {{"host", "a", {"f"}, "executed", *module}}, "{}", {}})
        .bytes();
  }

  mlir::MLIRContext context;
  ModelConfig config;
  std::map<std::string, KernelBuild> kernels;
};

TEST_F(PlanBuilderTest, TablesSayWhatTheModuleSays) {
  plan::PlanFile file = plan::PlanFile::fromBytes(build(text), "test");
  file.verify();
  const plan::Tables &tables = file.tables();
  const plan::Bucket &bucket = *tables.targets()->Get(0)->buckets()->Get(0);
  EXPECT_EQ(bucket.rows(), 2u);
  EXPECT_EQ(bucket.arena_bytes(), 4096u);
  EXPECT_EQ(bucket.arena_bytes_per_block(), 64u);
  EXPECT_EQ(bucket.logits_offset(), 2048u);
  const plan::Launch &norm = *bucket.launches()->Get(0), &head = *bucket.launches()->Get(1);
  EXPECT_EQ(norm.label()->str(), "norm");
  EXPECT_EQ(tables.kernels()->Get(norm.kernel())->name()->str(), "norm");
  EXPECT_EQ(norm.grid_y()->blocks_per_item(), 4u);
  EXPECT_EQ(norm.args()->Get(0)->kind(), plan::ArgKind::Batch);
  EXPECT_EQ(norm.args()->Get(0)->index(), uint32_t(plan::BatchArray::TokenIds));
  EXPECT_EQ(norm.args()->Get(2)->offset(), 3072u);
  EXPECT_EQ(head.args()->Get(0)->kind(), plan::ArgKind::Weight);
  EXPECT_EQ(head.args()->Get(0)->offset(), 64u);
  EXPECT_EQ(head.args()->Get(1)->kind(), plan::ArgKind::CachePool);
  EXPECT_EQ(head.args()->Get(2)->value(), -5);
  const plan::Tap &tap = *bucket.taps()->Get(0);
  EXPECT_EQ(tap.after_launch(), 0u);
  EXPECT_EQ(tap.layer(), 1u);
  EXPECT_EQ(tables.cache()->layers()->Get(0)->index_offset(), -1);
  const plan::WeightPiece &piece = *tables.weights()->Get(0)->pieces()->Get(0);
  EXPECT_EQ(piece.first_panel(), 1u);
  EXPECT_EQ(piece.shape()->Get(0), 16);
}

TEST_F(PlanBuilderTest, EqualObjectsShareASectionAndSourcesAreKept) {
  plan::PlanFile file = plan::PlanFile::fromBytes(build(text), "test");
  unsigned code = 0, sources = 0;
  for (uint32_t i = 0; i < file.sectionCount(); ++i) {
    code += file.section(i).kind == uint32_t(plan::SectionKind::Code);
    sources += file.section(i).kind == uint32_t(plan::SectionKind::Source);
  }
  EXPECT_EQ(code, 2u); // three of the four objects are equal
  EXPECT_EQ(sources, 1u);
}

TEST_F(PlanBuilderTest, EqualInputGivesEqualBytes) { EXPECT_EQ(build(text), build(text)); }

TEST_F(PlanBuilderTest, RefusesWhatWasNotBuilt) {
  kernels.erase("head");
  EXPECT_THROW(build(text), Error);
}

} // namespace
