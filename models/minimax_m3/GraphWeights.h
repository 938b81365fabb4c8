// The m3.weight declarations of a model.
#pragma once

#include "models/minimax_m3/WeightMap.h"

#include "mlir/IR/Builders.h"

namespace m3c {

/// Declares every weight at the builder's insertion point; experts "layers.L.experts.E.gate" become
/// one stack "layers.L.experts.gate" whose tensor names hold `{e}`.
void declareWeights(mlir::OpBuilder &builder, const std::vector<Weight> &weights);

} // namespace m3c
