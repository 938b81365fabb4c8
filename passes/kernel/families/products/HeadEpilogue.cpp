#include "passes/kernel/families/products/HeadEpilogue.h"

#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/cache/CacheSlots.h"

using namespace mlir;

namespace m3c::kernel {

HeadEpilogue::HeadEpilogue(KernelBuilder &kb, const HeadShape &shape, int64_t chunk, Value head,
                           Value local, Value row)
    : kb(kb), shape(shape), chunk(chunk), head(head), local(local), row(row) {
  pieces = loadPieces(head, local);
}

HeadEpilogue::HeadEpilogue(KernelBuilder &kb, const HeadShape &shape, int64_t chunk, Value sums,
                           Value row)
    : kb(kb), shape(shape), chunk(chunk), row(row) {
  for (int64_t d = 0; d < shape.headDim; d += chunk)
    pieces.push_back(kb.slice(sums, 0, d, 1, chunk));
}

int64_t HeadEpilogue::fitChunk(int64_t chunk, const HeadShape &shape) {
  while (shape.headDim % chunk)
    chunk /= 2;
  return chunk;
}

void HeadEpilogue::scale(Value factor) {
  eachPiece([&](Value v) { return kb.mulf(v, factor); });
}

void HeadEpilogue::norm(Value weight) {
  Value squares = kb.fill(0.0, 1, chunk);
  for (Value piece : pieces)
    squares = kb.fma(piece, piece, squares);
  Value sum = kb.extract(kb.reduce(tile::ReduceKind::Add, squares), 0, 0);
  Value factor = normScale(kb, sum, shape.headDim, shape.eps);
  for (auto [i, piece] : llvm::enumerate(pieces)) {
    Value w = kb.load(weight, {kb.index(int64_t(i) * chunk)}, {chunk}, 1, chunk);
    piece = kb.map({piece, w}, 1, chunk, [&](ValueRange args) {
      return kb.mulf(kb.mulf(args[0], factor), kb.addf(args[1], kb.f32(1.0)));
    });
  }
}

void HeadEpilogue::rotate(Value table) {
  int64_t half = shape.rotary / 2;
  if (!staysInRegisters(shape, chunk))
    return rotateInMemory(table);
  int64_t count = half / chunk; // pieces
  auto part = [&](int64_t dim) {
    return kb.load(table, {row, kb.index(dim)}, {1, chunk}, 1, chunk);
  };
  for (int64_t i = 0; i < count; ++i)
    std::tie(pieces[size_t(i)], pieces[size_t(count + i)]) = emitRotated(
        kb, pieces[size_t(i)], pieces[size_t(count + i)], part(i * chunk), part(half + i * chunk));
}

void HeadEpilogue::roundTo(Value tensor) {
  if (!storedElement(tensor).isF32())
    eachPiece([&](Value v) { return kb.round(v, tile::Format::BF16); });
}

void HeadEpilogue::storeQuery(Value query, Value headIndex, bool onGrid) {
  if (onGrid)
    eachPiece(
        [&](Value v) { return kb.round(kb.round(v, tile::Format::BF16), tile::Format::E4M3); });
  for (auto [i, piece] : llvm::enumerate(pieces)) {
    Value col = kb.add(kb.mul(headIndex, shape.headDim), int64_t(i) * chunk);
    kb.storeF32(piece, query, {row, col}, {1, chunk});
  }
}

void HeadEpilogue::storeSlot(Value pool, Value slotOffset, Value token, bool values) {
  storeSlotGroups(kb, shape.cache.getKv(), shape.headDim, pool, slotOffset, token, 0, pieces,
                  values);
}

Values HeadEpilogue::loadPieces(Value from, Value at) {
  Values loaded;
  for (int64_t d = 0; d < shape.headDim; d += chunk)
    loaded.push_back(kb.load(from, {at, kb.index(d)}, {1, chunk}, 1, chunk));
  return loaded;
}

void HeadEpilogue::eachPiece(llvm::function_ref<Value(Value)> function) {
  for (Value &piece : pieces)
    piece = kb.map(piece, 1, chunk, [&](ValueRange args) { return function(args[0]); });
}

void HeadEpilogue::rotateInMemory(Value table) {
  for (auto [i, piece] : llvm::enumerate(pieces))
    kb.store(piece, head, {local, kb.index(int64_t(i) * chunk)}, {1, chunk});
  emitRotate(kb, head, local, table, row, shape.rotary);
  pieces = loadPieces(head, local);
}

} // namespace m3c::kernel
