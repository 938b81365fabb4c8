// The m3 dialect: what the model computes, free of any target. Operations are described in
// M3Ops.td.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/m3/M3Enums.h.inc"

#include "dialects/m3/M3Dialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/m3/M3Attrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/m3/M3Types.h.inc"

namespace m3c::m3 {

/// Tokens of a page and of a block of the sparse attention.
inline constexpr int64_t blockTokens = 128;

/// Unit attribute of a function that is a whole step: every layer that it reads it also writes.
inline constexpr llvm::StringLiteral stepAttr = "m3.step";

/// The effect resource of cached keys and values.
struct CacheResource : mlir::SideEffects::Resource::Base<CacheResource> {
  llvm::StringRef getName() final { return "m3.cache"; }
};

} // namespace m3c::m3

#define GET_OP_CLASSES
#include "dialects/m3/M3Ops.h.inc"

namespace m3c::m3 {

/// The weight that `symbol` names, seen from `user`; null if there is none.
WeightOp lookupWeight(mlir::Operation *user, mlir::FlatSymbolRefAttr symbol);

/// One access of an operation to a layer of a cache, `cache` being one of its operands.
struct CacheAccess {
  mlir::Value cache;
  int64_t layer;
  bool write;
};

/// The accesses of `op` in their order; those in the body of a fused operation count as its own.
llvm::SmallVector<CacheAccess> cacheAccesses(mlir::Operation *op);

/// Replaces a fused operation by its body.
void unfuse(mlir::RewriterBase &rewriter, FusedOp op);

} // namespace m3c::m3
