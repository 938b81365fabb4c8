// A module of the plan dialect becomes a plan file that says the same.
#include "compiler/planfile/PlanBuilder.h"
#include "runtime/base/Error.h"
#include "runtime/plan/PlanFile.h"
#include "tests/unit/PlanModule.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace m3c;
using test::planModule;

namespace {

class PlanBuilderTest : public test::PlanModuleTest {
protected:
  PlanBuilderTest() {
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
    kernels["norm"] = {"norm",
                       "rows = 1",
                       3,
                       "text of norm",
                       {{"a", one, {64}}, {"b", two, shapeOfB, "", elements}}};
    kernels["head"] = {"head", "", 4, "", {{"a", one}, {"b", one}}};
  }

  std::vector<std::byte> build(const std::string &source) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
    EXPECT_TRUE(module);
    return buildPlan({config, kernels, {{"host", "a", {"f"}, "executed", *module}}, "{}", {}})
        .bytes();
  }

  const std::vector<plan::Element> elements = {plan::Element::I32, plan::Element::Bf16,
                                               plan::Element::F32};
  const KernelLaunchShape shapeOfB = {1024, 384, 2, true, 168, 8};
  ModelConfig config;
  std::map<std::string, KernelBuild> kernels;
};

TEST_F(PlanBuilderTest, TablesSayWhatTheModuleSays) {
  plan::PlanFile file = plan::PlanFile::fromBytes(build(planModule), "test");
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
  // What the launches may touch: hidden rows, block scores, the rest of the weight, a layer's
  // slots.
  const plan::Arg &hidden = *norm.args()->Get(1), &scores = *norm.args()->Get(2);
  EXPECT_EQ(norm.args()->Get(0)->access(), plan::Access::Read);
  EXPECT_EQ(hidden.access(), plan::Access::Write);
  EXPECT_EQ(hidden.row_bytes(), 1024u);
  EXPECT_EQ(hidden.fixed_bytes(), 0u);
  EXPECT_EQ(scores.block_bytes(), 16u);
  EXPECT_EQ(head.args()->Get(0)->fixed_bytes(), 64u);
  EXPECT_EQ(head.args()->Get(1)->access(), plan::Access::ReadWrite);
  EXPECT_EQ(head.args()->Get(1)->fixed_bytes(), 2 * 9216u);
  EXPECT_EQ(head.args()->Get(3)->fixed_bytes(), 1024u);
  const plan::Tap &tap = *bucket.taps()->Get(0);
  EXPECT_EQ(tap.after_launch(), 0u);
  EXPECT_EQ(tap.layer(), 1u);
  EXPECT_EQ(tables.cache()->layers()->Get(0)->index_offset(), -1);
  const plan::WeightPiece &piece = *tables.weights()->Get(0)->pieces()->Get(0);
  EXPECT_EQ(piece.first_panel(), 1u);
  EXPECT_EQ(piece.shape()->Get(0), 16);
}

TEST_F(PlanBuilderTest, EveryObjectHasItsLaunchShape) {
  plan::PlanFile file = plan::PlanFile::fromBytes(build(planModule), "test");
  const plan::Launch &launch =
      *file.tables().targets()->Get(0)->buckets()->Get(0)->launches()->Get(0);
  const plan::Kernel &norm = *file.tables().kernels()->Get(launch.kernel());
  const plan::CodeObject &a = *norm.objects()->Get(0), &b = *norm.objects()->Get(1);
  EXPECT_EQ(a.shared_bytes(), 64u);
  EXPECT_EQ(a.threads(), 1u);
  EXPECT_EQ(a.cluster(), 1u);
  EXPECT_FALSE(a.overlaps());
  EXPECT_EQ(b.shared_bytes(), 1024u);
  EXPECT_EQ(b.threads(), 384u);
  EXPECT_EQ(b.cluster(), 2u);
  EXPECT_TRUE(b.overlaps());
  EXPECT_EQ(b.registers(), 168u);
  EXPECT_EQ(b.spill_bytes(), 8u);
  EXPECT_EQ(a.elements(), nullptr);
  ASSERT_EQ(b.elements()->size(), elements.size());
  EXPECT_EQ(plan::Element(b.elements()->Get(1)), plan::Element::Bf16);
}

TEST_F(PlanBuilderTest, EqualObjectsShareASectionAndSourcesAreKept) {
  plan::PlanFile file = plan::PlanFile::fromBytes(build(planModule), "test");
  unsigned code = 0, sources = 0;
  for (uint32_t i = 0; i < file.sectionCount(); ++i) {
    code += file.section(i).kind == uint32_t(plan::SectionKind::Code);
    sources += file.section(i).kind == uint32_t(plan::SectionKind::Source);
  }
  EXPECT_EQ(code, 2u); // three of the four objects are equal
  EXPECT_EQ(sources, 1u);
}

// What another chip needs to build a kernel itself: the text of that object, headers, options.
TEST_F(PlanBuilderTest, ObjectsKeepTheirSources) {
  kernels["norm"].objects[1].source = "text for b";
  kernels["head"].objects[1].source = "text for b"; // once in the file
  auto module = mlir::parseSourceString<mlir::ModuleOp>(planModule, &context);
  PlanContent content{config, kernels, {{"host", "a", {"f"}, "executed", *module}}, "{}", {}};
  content.targets[0].headers = {{"device/x.h", "// x"}};
  content.targets[0].buildOptions = {"--option"};
  content.targets[0].sourceFeatures = {"g", "h"};
  content.extras = {{"include/device/x.h", "// x"}};
  plan::PlanFile file = plan::PlanFile::fromBytes(buildPlan(content).bytes(), "test");
  const plan::Tables &tables = file.tables();
  std::vector<int32_t> sections;
  for (const plan::Kernel *kernel : *tables.kernels()) {
    EXPECT_EQ(kernel->objects()->Get(0)->source_section(), -1);
    sections.push_back(kernel->objects()->Get(1)->source_section());
  }
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0], sections[1]);
  auto textOf = [&](uint32_t section) {
    std::span<const std::byte> bytes = file.sectionBytes(section);
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(textOf(uint32_t(sections[0])), "text for b");
  const plan::Target &target = *tables.targets()->Get(0);
  EXPECT_EQ(target.headers()->Get(0)->name()->str(), "device/x.h");
  EXPECT_EQ(textOf(target.headers()->Get(0)->section()), "// x");
  EXPECT_EQ(target.headers()->Get(0)->section(), tables.extras()->Get(0)->section());
  EXPECT_EQ(target.build_options()->Get(0)->str(), "--option");
  EXPECT_EQ(target.source_features()->size(), 2u);
}

TEST_F(PlanBuilderTest, EqualInputGivesEqualBytes) {
  EXPECT_EQ(build(planModule), build(planModule));
}

TEST_F(PlanBuilderTest, RefusesWhatWasNotBuilt) {
  kernels.erase("head");
  EXPECT_THROW(build(planModule), Error);
}

} // namespace
