// Passes on the `m3` dialect (see Passes.td) and the pipeline that a compilation runs.
#pragma once

#include "dialects/m3/M3.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/statistics/Statistics.h"

#include <string>
#include <vector>

namespace m3c::graph {

#define GEN_PASS_DECL
#include "passes/graph/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/graph/Passes.h.inc"

struct PipelineOptions {
  std::vector<std::string> supportedEncodings; ///< all when empty
  std::vector<int64_t> buckets;                ///< rows; powers of two up to 512 when empty
  std::vector<std::string> disabled;           ///< names of passes that are left out
};

/// Attribute of a module: row counts of its buckets, ascending.
inline constexpr llvm::StringLiteral bucketsAttr = "m3.buckets";

/// Encodings, shared tables, the fusions that kernels exist for, buckets. Throws Error (wrong
/// usage) when `disabled` names no pass of the pipeline.
void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options = {});

/// Names of the passes of the pipeline, in order.
std::vector<std::string> pipelinePasses();

/// Registers the passes and the pipeline `m3-graph`.
void registerGraphPassesAndPipeline();

} // namespace m3c::graph
