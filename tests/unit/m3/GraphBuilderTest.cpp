// The graph of each shipped checkpoint and configuration: its shape, its weights, its text form.
#include "models/minimax_m3/GraphBuilder.h"
#include "compiler/import/Import.h"
#include "runtime/base/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace m3c;

namespace {

ImportedModel load(const char *name) { return importModel(std::string(M3C_TEST_DATA "/") + name); }

template <typename Op> int64_t count(ModuleOp module) {
  int64_t n = 0;
  module.walk([&](Op) { ++n; });
  return n;
}

struct GraphBuilder : testing::Test {
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

TEST_F(GraphBuilder, nanoIsSparseInEveryLayer) {
  ImportedModel model = load("m31-nano");
  EXPECT_EQ(defaultCacheStorage(model.config, model.weights), m3::CacheStorage::NVFP4);
  auto module = buildGraph(context, model.config, model.weights,
                           {m3::CacheStorage::NVFP4, m3::CacheGrid::E4M3});
  EXPECT_EQ(count<m3::SparseAttentionOp>(*module), 6);
  EXPECT_EQ(count<m3::DenseAttentionOp>(*module), 0);
  EXPECT_EQ(count<m3::RouteOp>(*module), 5);
  EXPECT_EQ(count<m3::SwigluOp>(*module), 1);
  EXPECT_EQ(count<m3::CacheWriteOp>(*module), 6);
  EXPECT_EQ(count<m3::QuantizeOp>(*module), 12); // q and index q of every layer
  EXPECT_EQ(count<m3::RopeTableOp>(*module), 1);
}

TEST_F(GraphBuilder, tinyMixesDenseAndSparseLayers) {
  ImportedModel model = load("m3-tiny");
  EXPECT_EQ(defaultCacheStorage(model.config, model.weights), m3::CacheStorage::FP8);
  auto module = buildGraph(context, model.config, model.weights, {});
  EXPECT_EQ(count<m3::SparseAttentionOp>(*module), 2);
  EXPECT_EQ(count<m3::DenseAttentionOp>(*module), 2);
  EXPECT_EQ(count<m3::QuantizeOp>(*module), 0); // an f32 cache rounds nothing
  auto fp8 = buildGraph(context, model.config, model.weights,
                        {m3::CacheStorage::FP8, m3::CacheGrid::Exact});
  EXPECT_EQ(count<m3::QuantizeOp>(*fp8), 2); // index q of the sparse layers; q is not rounded
}

TEST_F(GraphBuilder, expertsAreStackedWithTheirTensorNames) {
  ImportedModel model = load("m31-nano");
  auto module = buildGraph(context, model.config, model.weights, {});
  auto gate = module->lookupSymbol<m3::WeightOp>("layers.1.experts.gate");
  ASSERT_TRUE(gate);
  EXPECT_EQ(gate.weightType().experts(), model.config.experts);
  EXPECT_EQ(gate.weightType().rows(), model.config.expertIntermediate);
  EXPECT_EQ(gate.weightType().cols(), model.config.hidden);
  EXPECT_EQ(gate.weightType().getEncoding(), m3::Encoding::NVFP4Packed);
  auto values = cast<m3::PartAttr>(gate.getParts()[0]);
  EXPECT_EQ(values.getName(), "language_model.model.layers.1.block_sparse_moe.experts.{e}.w1."
                              "weight_packed");
}

TEST_F(GraphBuilder, everyWeightOfTheMapIsUsedOnce) {
  ImportedModel model = load("m3-tiny-nvfp4");
  auto module = buildGraph(context, model.config, model.weights, {});
  for (auto weight : module->getOps<m3::WeightOp>()) {
    auto uses = SymbolTable::getSymbolUses(weight, *module);
    ASSERT_TRUE(uses.has_value());
    EXPECT_EQ(std::distance(uses->begin(), uses->end()), 1) << weight.getSymName().str();
  }
}

TEST_F(GraphBuilder, textIsReadBackUnchanged) {
  for (const char *name : {"m31-nano", "m3-tiny-mxfp8", "m31-mid"}) {
    ImportedModel model = load(name);
    auto module = buildGraph(context, model.config, model.weights,
                             {m3::CacheStorage::NVFP4, m3::CacheGrid::Exact});
    std::string text, again;
    llvm::raw_string_ostream(text) << *module;
    auto parsed = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(parsed) << name;
    llvm::raw_string_ostream(again) << *parsed;
    EXPECT_EQ(text, again) << name;
  }
}

TEST_F(GraphBuilder, fullSizeModelBuildsFromItsConfiguration) {
  ImportedModel model = load("m31-full");
  auto module = buildGraph(context, model.config, model.weights,
                           {m3::CacheStorage::NVFP4, m3::CacheGrid::E4M3});
  EXPECT_EQ(count<m3::SparseAttentionOp>(*module), 60);
  EXPECT_EQ(count<m3::RouteOp>(*module), 57);
}

TEST_F(GraphBuilder, expertsOfOneLayerInTwoFormatsAreRefused) {
  ImportedModel model = load("m3-tiny-nvfp4");
  for (Weight &weight : model.weights)
    if (weight.symbol == "layers.2.experts.3.up")
      weight.encoding = WeightEncoding::Nvfp4Packed;
  try {
    buildGraph(context, model.config, model.weights, {});
    FAIL() << "accepted";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("layers.2.experts.3.up"), std::string::npos);
  }
}

TEST_F(GraphBuilder, gridWithoutNvfp4IsRefused) {
  ImportedModel model = load("m3-tiny");
  EXPECT_THROW(buildGraph(context, model.config, model.weights,
                          {m3::CacheStorage::BF16, m3::CacheGrid::E4M3}),
               Error);
}

} // namespace
