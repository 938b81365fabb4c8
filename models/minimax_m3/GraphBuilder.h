// From configuration and weight map to the m3 dialect: the function `step` and its weights.
#pragma once

#include "models/minimax_m3/WeightMap.h"

#include "dialects/m3/M3.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace m3c {

struct GraphOptions {
  m3::CacheStorage kv = m3::CacheStorage::F32;
  m3::CacheGrid grid = m3::CacheGrid::Exact; ///< `E4M3` with nvfp4 storage alone
  m3::Activations activations = m3::Activations::F32;
};

/// Builds a verified module: one `m3.weight` per logical weight (the experts of a layer as stacks
/// `layers.L.experts.gate|up|down`) and `func.func @step(batch, cache) -> logits` of the batch's
/// logit rows, f32 [logit rows, vocab]. `weights` is the list that buildWeightMap gives. Throws
/// Error where the experts of one layer are stored in different formats.
mlir::OwningOpRef<mlir::ModuleOp> buildGraph(mlir::MLIRContext &context, const ModelConfig &config,
                                             const std::vector<Weight> &weights,
                                             const GraphOptions &options);

/// Loads the dialects that buildGraph needs.
void loadGraphDialects(mlir::MLIRContext &context);

/// The storage that a cache has by default: nvfp4 where every layer is sparse and the routed
/// experts are `nvfp4-pack-quantized` (M3.1), else fp8 (M3).
m3::CacheStorage defaultCacheStorage(const ModelConfig &config, const std::vector<Weight> &weights);

/// The value of the one choice "activations=f32|bf16" that numerics have; nothing where `entries`
/// is empty. Throws Error, with the list of values, for anything else.
std::optional<m3::Activations> readNumerics(const std::vector<std::string> &entries);

/// The grid that a cache of this storage has by default: `E4M3` for nvfp4, else `Exact`.
m3::CacheGrid defaultGrid(m3::CacheStorage kv);

} // namespace m3c
