// The graph pipeline on real checkpoints: what it fuses, that unfusing gives the graph back, and
// that the fused graph computes the same numbers, bit for bit, on random inputs.
#include "compiler/import/Import.h"
#include "compiler/interpreter/Interpreter.h"
#include "models/minimax_m3/GraphBuilder.h"
#include "passes/graph/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"
#include <map>
#include <random>

using namespace mlir;
using namespace m3c;

namespace {

struct Fusion : testing::Test {
  MLIRContext context{MLIRContext::Threading::DISABLED};

  OwningOpRef<ModuleOp> graph(const ImportedModel &model, m3::CacheStorage kv,
                              m3::Activations activations = m3::Activations::F32) {
    return buildGraph(context, model.config, model.weights, {kv, defaultGrid(kv), activations});
  }

  void run(ModuleOp module, const graph::PipelineOptions &options = {}) {
    PassManager manager(&context);
    graph::buildPipeline(manager, options);
    ASSERT_TRUE(succeeded(manager.run(module)));
  }

  std::map<std::string, int> kinds(ModuleOp module) {
    std::map<std::string, int> counts;
    module.walk([&](m3::FusedOp fused) { ++counts[fused.getKind().str()]; });
    return counts;
  }

  int64_t measured(ModuleOp module, const char *what) {
    PassManager manager(&context);
    manager.addNestedPass<func::FuncOp>(graph::createM3Measure());
    EXPECT_TRUE(succeeded(manager.run(module)));
    auto step = module.lookupSymbol<func::FuncOp>("step");
    return step->getAttrOfType<IntegerAttr>(what).getInt();
  }
};

ImportedModel load(const char *name) { return importModel(std::string(M3C_TEST_DATA "/") + name); }

/// Logits of `count` random tokens that run as two chunks of one sequence.
std::vector<double> interpret(ModuleOp module, const ImportedModel &model, int64_t count) {
  interpreter::CheckpointWeights weights(*model.checkpoint);
  interpreter::Interpreter runner(weights, 2);
  auto step = module.lookupSymbol<func::FuncOp>("step");
  interpreter::PagedCache cache(
      interpreter::cacheShape(cast<m3::CacheType>(step.getArgument(1).getType())));
  std::mt19937 generator(7);
  std::vector<double> logits;
  for (int64_t begin : {int64_t(0), count / 3}) {
    interpreter::Batch batch;
    int64_t end = begin ? count : count / 3;
    for (int64_t p = begin; p < end; ++p) {
      batch.tokenIds.push_back(int32_t(generator() % unsigned(model.config.vocab)));
      batch.positions.push_back(int32_t(p));
      batch.sequenceOfRow.push_back(0);
      batch.logitRows.push_back(int32_t(p - begin));
    }
    batch.pageTable = {{5, 0, 9, 2, 7}};
    auto results = runner.run(step, {interpreter::Value(&batch), interpreter::Value(&cache)});
    const auto &tensor = *std::get<std::shared_ptr<const interpreter::Tensor>>(results[0]);
    logits.insert(logits.end(), tensor.reals.begin(), tensor.reals.end());
  }
  return logits;
}

TEST_F(Fusion, everyLayerOfTheNanoIsFused) {
  ImportedModel model = load("m31-nano");
  auto module = graph(model, m3::CacheStorage::NVFP4);
  run(*module);
  EXPECT_EQ(kinds(*module), (std::map<std::string, int>{{"qkv_rope_insert", 6},
                                                        {"index_topk", 6},
                                                        {"residual_project", 7},
                                                        {"gate_up", 1},
                                                        {"norm_route", 5},
                                                        {"experts_shared", 5}}));
  // What is left: table, embedding, norms, gather, head; attention.
  auto step = module->lookupSymbol<func::FuncOp>("step");
  EXPECT_EQ(llvm::range_size(step.getBody().getOps<m3::ProjectOp>()), 1); // the head
  EXPECT_TRUE(step.getBody().getOps<arith::AddFOp>().empty());
  EXPECT_TRUE((*module)->hasAttr(graph::bucketsAttr));
}

TEST_F(Fusion, launchesAndBytesShrink) {
  ImportedModel model = load("m31-nano");
  auto module = graph(model, m3::CacheStorage::NVFP4);
  int64_t launches = measured(*module, "m3.launches");
  int64_t bytes = measured(*module, "m3.row_bytes");
  int64_t weights = measured(*module, "m3.weight_bytes");
  run(*module);
  // Table, embedding, final norm, gather and head; a layer has 23 operations (norm, 5 projections,
  // 4 head norms, 4 rotations, 2 roundings, write, score, choice, attention, output projection,
  // addition, norm) and 5 more each for a dense FFN (3 projections, activation, addition) and an
  // MoE one (route, experts, shared, 2 additions).
  EXPECT_EQ(launches, 5 + 6 * 23 + 6 * 5);
  // Fused: norm, insert, choice, attention, output projection; then norm, gate-up, down, or
  // norm-route, experts.
  EXPECT_EQ(measured(*module, "m3.launches"), 5 + 6 * 5 + 3 + 5 * 2);
  EXPECT_LT(measured(*module, "m3.row_bytes"), bytes / 2);
  EXPECT_EQ(measured(*module, "m3.weight_bytes"), weights);
}

TEST_F(Fusion, fusedGraphComputesTheSame) {
  struct Case {
    const char *name;
    m3::CacheStorage kv;
    int64_t tokens;
  };
  for (Case c : {Case{"m3-tiny-nvfp4", m3::CacheStorage::NVFP4, 400},
                 Case{"m3-tiny", m3::CacheStorage::FP8, 300},
                 Case{"m31-nano", m3::CacheStorage::NVFP4, 40}}) {
    ImportedModel model = load(c.name);
    auto unfused = graph(model, c.kv), fused = graph(model, c.kv);
    run(*fused);
    ASSERT_FALSE(kinds(*fused).empty());
    EXPECT_EQ(interpret(*unfused, model, c.tokens), interpret(*fused, model, c.tokens)) << c.name;
  }
}

TEST_F(Fusion, bf16GraphIsFusedAlike) {
  ImportedModel model = load("m3-tiny-nvfp4");
  auto wide = graph(model, m3::CacheStorage::NVFP4);
  auto narrow = graph(model, m3::CacheStorage::NVFP4, m3::Activations::BF16);
  int64_t before = measured(*wide, "m3.row_bytes");
  EXPECT_LT(measured(*narrow, "m3.row_bytes"), before);
  run(*wide);
  run(*narrow);
  EXPECT_EQ(kinds(*wide), kinds(*narrow));
  EXPECT_EQ(measured(*wide, "m3.launches"), measured(*narrow, "m3.launches"));
  // Rotary table, ids and weights of experts and logits keep their size, the rest is halved.
  EXPECT_LT(measured(*narrow, "m3.row_bytes"), measured(*wide, "m3.row_bytes") * 3 / 4);
}

/// By name, as shown in a list of tests.
struct Choice {
  m3::Activations activations;
};
void PrintTo(const Choice &choice, std::ostream *out) {
  *out << m3::stringifyActivations(choice.activations).str();
}

struct EveryFusion : Fusion, testing::WithParamInterface<Choice> {};

TEST_P(EveryFusion, canBeLeftOut) {
  ImportedModel model = load("m3-tiny-nvfp4");
  auto reference = graph(model, m3::CacheStorage::NVFP4, GetParam().activations);
  std::vector<double> expected = interpret(*reference, model, 140);
  for (const std::string &name : graph::pipelinePasses()) {
    auto module = graph(model, m3::CacheStorage::NVFP4, GetParam().activations);
    graph::PipelineOptions options;
    options.disabled = {name};
    run(*module, options);
    llvm::StringRef kind = name;
    if (kind.consume_front("m3-fuse-")) {
      std::string key = kind.str();
      std::replace(key.begin(), key.end(), '-', '_');
      EXPECT_FALSE(kinds(*module).contains(key)) << name;
    }
    EXPECT_EQ(interpret(*module, model, 140), expected) << name;
  }
  PassManager manager(&context);
  EXPECT_THROW(graph::buildPipeline(manager, {{}, {}, {"m3-fuse-nothing"}}), Error);
}

INSTANTIATE_TEST_SUITE_P(Activations, EveryFusion,
                         testing::Values(Choice{m3::Activations::F32},
                                         Choice{m3::Activations::BF16}));

TEST_F(Fusion, unfusingGivesAGraphThatFusesAgain) {
  ImportedModel model = load("m3-tiny-mxfp8");
  auto module = graph(model, m3::CacheStorage::FP8);
  run(*module);
  auto before = kinds(*module);
  PassManager manager(&context);
  manager.addNestedPass<func::FuncOp>(graph::createM3Unfuse());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  EXPECT_TRUE(kinds(*module).empty());
  run(*module);
  EXPECT_EQ(kinds(*module), before);
}

/// Shuffles the operations of the step within what operands and cache accesses allow.
void shuffle(func::FuncOp step, unsigned seed) {
  std::mt19937 generator(seed);
  Block &block = step.getBody().front();
  std::vector<Operation *> left, placed;
  for (Operation &op : block.without_terminator())
    left.push_back(&op);
  auto ready = [&](Operation *op) {
    for (Operation *other : left) {
      if (other == op)
        return true; // `left` keeps the original order: nothing before it holds it back
      bool uses = llvm::is_contained(other->getUsers(), op);
      bool both = !m3::cacheAccesses(other).empty() && !m3::cacheAccesses(op).empty() &&
                  m3::cacheAccesses(other)[0].layer == m3::cacheAccesses(op)[0].layer;
      if (uses || both)
        return false;
    }
    return true;
  };
  while (!left.empty()) {
    std::vector<Operation *> candidates;
    std::copy_if(left.begin(), left.end(), std::back_inserter(candidates), ready);
    Operation *chosen = candidates[generator() % candidates.size()];
    chosen->moveBefore(block.getTerminator());
    left.erase(std::find(left.begin(), left.end(), chosen));
  }
}

TEST_F(Fusion, orderOfOperationsDoesNotMatter) {
  ImportedModel model = load("m3-tiny-nvfp4");
  auto reference = graph(model, m3::CacheStorage::NVFP4);
  std::vector<double> expected = interpret(*reference, model, 140);
  run(*reference);
  for (unsigned seed = 0; seed < 5; ++seed) {
    auto module = graph(model, m3::CacheStorage::NVFP4);
    shuffle(module->lookupSymbol<func::FuncOp>("step"), seed);
    ASSERT_TRUE(succeeded(verify(*module)));
    run(*module);
    EXPECT_EQ(kinds(*module), kinds(*reference)) << seed;
    EXPECT_EQ(interpret(*module, model, 140), expected) << seed;
  }
}

} // namespace
