#include "passes/graph/Passes.h"

#include "runtime/base/Error.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace m3c::graph {
namespace {

std::unique_ptr<Pass> makeEncodings(const PipelineOptions &options) {
  M3LegalizeEncodingsOptions pass;
  pass.supported.assign(options.supportedEncodings.begin(), options.supportedEncodings.end());
  return createM3LegalizeEncodings(pass);
}

std::unique_ptr<Pass> makeBuckets(const PipelineOptions &options) {
  M3FormBucketsOptions pass;
  pass.rows.assign(options.buckets.begin(), options.buckets.end());
  return createM3FormBuckets(pass);
}

/// One row per pass. The fusions that need a whole chain come before those that cut its ends.
struct Row {
  llvm::StringLiteral name;
  std::unique_ptr<Pass> (*make)(const PipelineOptions &);
  bool onFunctions;
};
constexpr Row rows[] = {
    {"m3-legalize-encodings", makeEncodings, false},
    {"m3-share-rope-table", [](const PipelineOptions &) { return createM3ShareRopeTable(); }, true},
    {"m3-fuse-qkv-rope-insert", [](const PipelineOptions &) { return createM3FuseQkvInsert(); },
     true},
    {"m3-fuse-index-topk", [](const PipelineOptions &) { return createM3FuseIndexTopk(); }, true},
    {"m3-fuse-experts-shared", [](const PipelineOptions &) { return createM3FuseExpertsShared(); },
     true},
    {"m3-fuse-residual-project",
     [](const PipelineOptions &) { return createM3FuseResidualProject(); }, true},
    {"m3-fuse-gate-up", [](const PipelineOptions &) { return createM3FuseGateUp(); }, true},
    {"m3-fuse-norm-route", [](const PipelineOptions &) { return createM3FuseNormRoute(); }, true},
    {"m3-form-buckets", makeBuckets, false},
};

} // namespace

std::vector<std::string> pipelinePasses() {
  std::vector<std::string> names;
  for (const Row &row : rows)
    names.push_back(row.name.str());
  return names;
}

void buildPipeline(OpPassManager &manager, const PipelineOptions &options) {
  for (const std::string &name : options.disabled)
    if (!llvm::is_contained(pipelinePasses(), name))
      throw Error("no graph pass has this name", name, "", "m3-opt --help lists the passes",
                  ExitCode::Usage);
  for (const Row &row : rows) {
    if (llvm::is_contained(options.disabled, row.name.str()))
      continue;
    if (row.onFunctions)
      manager.addNestedPass<func::FuncOp>(row.make(options));
    else
      manager.addPass(row.make(options));
  }
}

void registerGraphPassesAndPipeline() {
  registerGraphPasses();
  PassPipelineRegistration<>("m3-graph", "Graph passes of a compilation",
                             [](OpPassManager &manager) { buildPipeline(manager); });
}

} // namespace m3c::graph
