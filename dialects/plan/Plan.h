// The `plan` dialect: the host program of one step (see PlanDialect.td).
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/plan/PlanDialect.h.inc"
#include "dialects/plan/PlanEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.h.inc"

namespace m3c::planir {

/// One dimension of a launch's grid: `count` items, or one item per `blocksPerItem` blocks of the
/// longest sequence where that is positive.
struct GridDim {
  int64_t count = 1;
  int64_t blocksPerItem = 0;
};

} // namespace m3c::planir

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"

namespace m3c::planir {

/// The part of the arena that a buffer takes: bytes [begin + blocks·beginScale,
/// end + blocks·endScale) in a bucket of fixed rows.
struct ArenaRange {
  int64_t begin, beginScale, end, endScale;
};

/// Where `buffer` lies; the buffer must have its offset.
ArenaRange arenaRange(BufferOp buffer, int64_t rows);

/// True if the ranges share a byte for some count of blocks of at least 1.
bool overlapsForSomeBlocks(const ArenaRange &a, const ArenaRange &b);

} // namespace m3c::planir
