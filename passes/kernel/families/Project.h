// Launches that other families are composed of.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

/// y = x Wᵀ (+ residual) into the buffer `y`. `logitRows`: the rows are the batch's logit rows.
mlir::LogicalResult emitProject(StepLowering &step, Value x, mlir::FlatSymbolRefAttr weight,
                                Value residual, Value y, bool logitRows);

/// Gemma norm of the rows of `x` (an m3 tensor) into a new buffer for `result`.
void emitNorm(StepLowering &step, Value x, llvm::StringRef weight, double eps, Value result);

} // namespace m3c::kernel
