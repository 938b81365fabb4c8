// The tile dialect: types, operations and the enums they carry.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/tile/TileEnums.h.inc"

#include "dialects/tile/TileDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/tile/TileTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/tile/TileAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/tile/TileOps.h.inc"

namespace m3c::tile {

/// Bytes of one element in memory.
int64_t elementBytes(mlir::Type element);

/// How a box of `sizes` lies in `view`: `count` chunks of `length` contiguous elements, `stride`
/// elements apart. Fails where the box is not of that form. With `rowByRow` no chunk spans two
/// indices of the first dimension, though they be contiguous.
struct BoxLayout {
  int64_t count, length, stride;
  unsigned countDim; ///< the dimension that `count` runs along
};
mlir::FailureOr<BoxLayout> boxLayout(ViewType view, llvm::ArrayRef<int64_t> sizes,
                                     bool rowByRow = false);

/// Whether a box holds a tile in the order of its registers: accumulators, and left operands that
/// lie as [K/16, 32, 8].
bool inRegisterOrder(TileType tile, llvm::ArrayRef<int64_t> sizes);

} // namespace m3c::tile
