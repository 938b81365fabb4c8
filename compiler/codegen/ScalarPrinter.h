// Text of one scalar op of arith or math. The same text is used for scalars and, inside a
// `tile.map`, for the lanes of a vector: it only uses operators and functions that the device
// headers overload.
#pragma once

#include "mlir/IR/Operation.h"

#include <string>

namespace m3c::codegen {

/// Writes the expression of `op` on already printed `operands`; fails on an op without one.
mlir::LogicalResult printScalar(mlir::Operation *op, llvm::ArrayRef<std::string> operands,
                                std::string &text);

} // namespace m3c::codegen
