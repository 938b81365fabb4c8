// Launches that other families are composed of.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

/// What a projection adds to its product, and whether it rounds the product to BF16 before.
struct Residual {
  RowBuffer rows = {};
  bool roundsProduct = false;
};

/// y = x Wᵀ (+ residual) into the buffer `y`. `logitRows`: the rows are the batch's logit rows.
mlir::LogicalResult emitProject(StepLowering &step, RowBuffer x, mlir::FlatSymbolRefAttr weight,
                                Residual residual, RowBuffer y, bool logitRows);

/// Gemma norm of the rows of `x` (an m3 tensor) into a new buffer for `result`.
void emitNorm(StepLowering &step, Value x, llvm::StringRef weight, double eps, Value result);

/// z = swiglu(x Wgᵀ, x Wuᵀ) into the buffer `z`; `name` is that of the packed pair and of the
/// launch.
mlir::LogicalResult emitGateUp(StepLowering &step, RowBuffer x, llvm::StringRef gate,
                               llvm::StringRef up, double alpha, double limit, llvm::StringRef name,
                               RowBuffer z);

} // namespace m3c::kernel
