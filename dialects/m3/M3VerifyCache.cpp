// Verifiers of the operations on the paged cache and of the order of its reads and writes.
#include "dialects/m3/M3.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>

using namespace mlir;
using namespace m3c::m3;

static int64_t width(Value rows) { return cast<RankedTensorType>(rows.getType()).getDimSize(1); }

static bool onE4m3Grid(Value rows) {
  auto storage =
      dyn_cast_if_present<StorageAttr>(cast<RankedTensorType>(rows.getType()).getEncoding());
  return storage && storage.getGrid() == Grid::E4M3;
}

static LogicalResult verifyLayer(Operation *op, CacheType cache, int64_t layer, StringRef label) {
  if (layer < 0 || layer >= cache.getLayers())
    return op->emitOpError() << label << ": the cache has no layer " << layer;
  return success();
}

//===--- order of reads and writes ------------------------------------------------------------===//

/// Appends the accesses of `op`, an operation of the block that `cache` belongs to.
static void appendAccesses(Operation *op, Value within, SmallVectorImpl<CacheAccess> &accesses) {
  auto append = [&](Value cache, uint64_t layer, bool write) {
    if (!within || cache == within)
      accesses.push_back({cache, int64_t(layer), write});
  };
  TypeSwitch<Operation *>(op)
      .Case<CacheWriteOp>([&](auto write) { append(write.getCache(), write.getLayer(), true); })
      .Case<IndexScoreOp, SparseAttentionOp, DenseAttentionOp>(
          [&](auto read) { append(read.getCache(), read.getLayer(), false); })
      .Case<FusedOp>([&](FusedOp fused) {
        for (auto [argument, input] :
             llvm::zip(fused.getBody().getArguments(), fused.getInputs())) {
          SmallVector<CacheAccess> inner;
          for (Operation &op : fused.getBody().front())
            appendAccesses(&op, argument, inner);
          for (CacheAccess access : inner)
            append(input, uint64_t(access.layer), access.write);
        }
      });
}

SmallVector<CacheAccess> m3c::m3::cacheAccesses(Operation *op) {
  SmallVector<CacheAccess> accesses;
  appendAccesses(op, Value(), accesses);
  return accesses;
}

LogicalResult CacheWriteOp::verify() {
  CacheType cache = getCache().getType();
  int64_t kvWidth = cache.getKvHeads() * cache.getHeadDim();
  if (failed(verifyLayer(*this, cache, getLayer(), "M3-C14")))
    return failure();
  if (width(getKeys()) != kvWidth || width(getValues()) != kvWidth)
    return emitOpError() << "M3-C14: keys and values are " << kvWidth
                         << " wide (KV heads x head size)";
  if (getIndexKeys() && (cache.getIndexDim() == 0 || width(getIndexKeys()) != cache.getIndexDim()))
    return emitOpError() << "M3-C14: index keys are " << cache.getIndexDim() << " wide";
  for (Operation &before : *(*this)->getBlock()) {
    if (&before == getOperation())
      break;
    for (CacheAccess access : cacheAccesses(&before))
      if (access.cache == getCache() && access.layer == int64_t(getLayer()))
        return emitOpError() << "M3-C15: layer " << getLayer() << " is "
                             << (access.write ? "written twice" : "read before it is written");
  }
  return success();
}

/// Every layer that the step reads was written before, through whatever fused operations.
static LogicalResult verifyStep(func::FuncOp function) {
  for (BlockArgument cache : function.getArguments()) {
    if (!isa<CacheType>(cache.getType()))
      continue;
    llvm::SmallDenseSet<int64_t> written;
    for (Operation &op : function.getBody().front()) {
      for (CacheAccess access : cacheAccesses(&op)) {
        if (access.cache != cache)
          continue;
        if (access.write)
          written.insert(access.layer);
        else if (!written.contains(access.layer))
          return op.emitOpError() << "M3-C33: layer " << access.layer
                                  << " of the cache is read but not written before";
      }
    }
  }
  return success();
}

LogicalResult M3Dialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != stepAttr)
    return success();
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    return op->emitOpError() << "'" << stepAttr << "' belongs to a function";
  if (function.isExternal())
    return success();
  return verifyStep(function);
}

//===--- reads --------------------------------------------------------------------------------===//

LogicalResult IndexScoreOp::verify() {
  CacheType cache = getCache().getType();
  if (failed(verifyLayer(*this, cache, getLayer(), "M3-C16")))
    return failure();
  if (cache.getIndexDim() == 0 || getScores().getType().getDimSize(1) != cache.getKvHeads() ||
      width(getQuery()) != cache.getKvHeads() * cache.getIndexDim())
    return emitOpError() << "M3-C16: one index query of " << cache.getIndexDim()
                         << " values per KV head (" << cache.getKvHeads() << ")";
  bool wanted = cache.getKv() == CacheStorage::NVFP4 || cache.getKv() == CacheStorage::FP8;
  if (wanted && !onE4m3Grid(getQuery()))
    return emitOpError("M3-C17: with this cache the index query lies on the e4m3 grid");
  return success();
}

LogicalResult BlockTopkOp::verify() {
  if (int64_t(getLocal()) < 1 || int64_t(getInit()) < 0)
    return emitOpError("M3-C18: the newest block is kept (local >= 1) and init >= 0");
  if (int64_t(getK()) < int64_t(getInit()) + int64_t(getLocal()))
    return emitOpError("M3-C19: k is at least init + local");
  auto scores = getScores().getType(), blocks = getBlocks().getType();
  if (blocks.getDimSize(2) != int64_t(getK()) || blocks.getDimSize(1) != scores.getDimSize(1))
    return emitOpError("M3-C19: the result is [rows, KV heads of the scores, k]");
  return success();
}

static LogicalResult verifyAttention(Operation *op, Value query, CacheType cache, int64_t layer,
                                     const APFloat &scale, Value result) {
  if (failed(verifyLayer(op, cache, layer, "M3-C20")))
    return failure();
  int64_t kvWidth = cache.getKvHeads() * cache.getHeadDim();
  if (width(query) < 1 || width(query) % kvWidth || width(result) != width(query))
    return op->emitOpError() << "M3-C20: query and result are a multiple of " << kvWidth
                             << " (KV heads x head size) wide";
  if (cache.getKv() == CacheStorage::NVFP4 && !onE4m3Grid(query))
    return op->emitOpError("M3-C22: with this cache the query lies on the e4m3 grid");
  double number = scale.convertToDouble();
  if (!std::isfinite(number) || number <= 0)
    return op->emitOpError("M3-C23: the scale is positive and finite");
  return success();
}

LogicalResult SparseAttentionOp::verify() {
  CacheType cache = getCache().getType();
  if (getBlocks().getType().getDimSize(1) != cache.getKvHeads())
    return emitOpError() << "M3-C21: the selection has " << cache.getKvHeads() << " KV heads";
  return verifyAttention(*this, getQuery(), cache, getLayer(), getScale(), getResult());
}

LogicalResult DenseAttentionOp::verify() {
  return verifyAttention(*this, getQuery(), getCache().getType(), getLayer(), getScale(),
                         getResult());
}

LogicalResult FusedOp::verify() {
  if (getKind().empty())
    return emitOpError("M3-C31: the kind is not empty");
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("M3-C31: operands and block arguments agree in number and type");
  auto yield = dyn_cast<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield)
    return emitOpError("M3-C31: the body ends with m3.yield");
  if (yield.getResults().getTypes() != getOutputs().getTypes())
    return emitOpError("M3-C31: results and the operands of m3.yield agree in number and type");
  return success();
}
