// The graph of each shipped checkpoint and configuration: its shape, its weights, its text form.
#include "models/minimax_m3/GraphBuilder.h"
#include "compiler/import/Import.h"
#include "runtime/base/Error.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <set>

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

/// Element types of the results of operations, as "operation: types".
std::set<std::string> elementTypes(ModuleOp module) {
  std::set<std::string> found;
  module.walk([&](Operation *op) {
    std::string text = op->getName().getStringRef().str() + ":";
    llvm::raw_string_ostream stream(text);
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        stream << ' ' << tensor.getElementType();
    if (op->getNumResults())
      found.insert(text);
  });
  return found;
}

TEST_F(GraphBuilder, bf16ActivationsAreElementTypes) {
  ImportedModel model = load("m3-tiny-nvfp4");
  GraphOptions options{m3::CacheStorage::FP8, m3::CacheGrid::Exact, m3::Activations::BF16};
  auto module = buildGraph(context, model.config, model.weights, options);
  // docs/adr/0005: the residual stream and what is added to it are F32, gate, up and logits too,
  // and queries and keys before their norm, with a cache of codes the norm before these; all others
  // are BF16.
  EXPECT_EQ(elementTypes(*module), (std::set<std::string>{"arith.addf: f32",
                                                          "arith.extf: f32",
                                                          "m3.block_topk: i32",
                                                          "m3.dense_attention: bf16",
                                                          "m3.embed: f32",
                                                          "m3.experts: f32",
                                                          "m3.gather_rows: bf16",
                                                          "m3.head_norm: f32",
                                                          "m3.index_score: f32",
                                                          "m3.norm: bf16",
                                                          "m3.norm: f32",
                                                          "m3.project: bf16",
                                                          "m3.project: f32",
                                                          "m3.quantize: bf16",
                                                          "m3.rope: bf16",
                                                          "m3.rope_table: f32",
                                                          "m3.route: i32 f32",
                                                          "m3.shared_expert: bf16",
                                                          "m3.sparse_attention: bf16",
                                                          "m3.swiglu_oai: bf16"}));
  std::set<std::string> wide, added, rotated;
  module->walk([&](m3::ProjectOp op) {
    if (!op.getResult().getType().getElementType().isF32())
      return;
    Operation *user = *op.getResult().user_begin();
    auto &found = isa<m3::HeadNormOp>(user) ? rotated : isa<arith::AddFOp>(user) ? added : wide;
    found.insert(op.getWeight().str());
  });
  EXPECT_EQ(wide, (std::set<std::string>{"layers.0.mlp.gate", "layers.0.mlp.up",
                                         "layers.1.mlp.gate", "layers.1.mlp.up", "lm_head"}));
  EXPECT_EQ(rotated.count("layers.0.q_proj") + rotated.count("layers.0.k_proj"), 2u);
  EXPECT_EQ(rotated.size(), size_t(count<m3::HeadNormOp>(*module)));
  EXPECT_EQ(added.count("layers.0.o_proj") + added.count("layers.0.mlp.down"), 2u);
  options.activations = m3::Activations::F32;
  auto f32 = buildGraph(context, model.config, model.weights, options);
  for (const std::string &types : elementTypes(*f32))
    EXPECT_EQ(types.find("bf16"), std::string::npos) << types;
}

TEST(Numerics, choicesAreReadOrRefused) {
  EXPECT_EQ(readNumerics({}), std::nullopt);
  EXPECT_EQ(readNumerics({"activations=bf16"}), m3::Activations::BF16);
  EXPECT_EQ(readNumerics({"activations=f32", "activations=f32"}), m3::Activations::F32);
  EXPECT_THROW(readNumerics({"activations=bf16", "activations=f32"}), Error);
  for (const char *bad : {"activations=fp8", "activations", "activations=", "bf16", "weights=f32"})
    try {
      readNumerics({bad});
      FAIL() << bad;
    } catch (const Error &error) {
      EXPECT_NE(error.next().find("activations=bf16"), std::string::npos) << bad;
    }
}

TEST_F(GraphBuilder, gridWithoutNvfp4IsRefused) {
  ImportedModel model = load("m3-tiny");
  EXPECT_THROW(buildGraph(context, model.config, model.weights,
                          {m3::CacheStorage::BF16, m3::CacheGrid::E4M3}),
               Error);
}

} // namespace
