#include "passes/kernel/families/Common.h"

#include "passes/kernel/products/SplitRows.h"

using namespace mlir;

namespace m3c::kernel {

tile::ViewType countsType(MLIRContext *context) {
  return tile::ViewType::get(context, {4}, IntegerType::get(context, 32), tile::Space::Global);
}
tile::ViewType listType(MLIRContext *context) {
  return tile::ViewType::get(context, {ShapedType::kDynamic}, IntegerType::get(context, 32),
                             tile::Space::Global);
}
tile::ViewType rowsType(MLIRContext *context, int64_t width, Type element) {
  return tile::ViewType::get(context, {ShapedType::kDynamic, width},
                             element ? element : Float32Type::get(context), tile::Space::Global);
}
tile::ViewType rowsType(Value tensor) {
  return rowsType(tensor.getContext(), widthOf(tensor), storedElement(tensor));
}
tile::ViewType vectorType(MLIRContext *context, int64_t width) {
  return tile::ViewType::get(context, {width}, Float32Type::get(context), tile::Space::Global);
}
tile::ViewType bytesType(MLIRContext *context) {
  return tile::ViewType::get(context, {ShapedType::kDynamic}, IntegerType::get(context, 8),
                             tile::Space::Global);
}

int64_t widthOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape().back(); }

void eachChunk(KernelBuilder &kb, int64_t width, int64_t chunk,
               function_ref<void(Value col, int64_t cols)> body) {
  int64_t whole = width / chunk * chunk;
  if (whole)
    kb.forLoop(kb.index(0), kb.index(whole), chunk, [&](Value col) { body(col, chunk); });
  if (whole < width)
    body(kb.index(whole), width - whole);
}

void eachChunkByWarp(KernelBuilder &kb, int64_t width, int64_t chunk,
                     function_ref<void(Value col, int64_t cols)> body) {
  if (kb.warps() == 1)
    return eachChunk(kb, width, chunk, body);
  int64_t whole = width / chunk * chunk;
  Value warp = kb.warpId();
  if (whole)
    kb.forLoop(kb.mul(warp, chunk), kb.index(whole), chunk * kb.warps(),
               [&](Value col) { body(col, chunk); });
  if (whole < width)
    kb.when(kb.equal(warp, kb.index(0)), [&] { body(kb.index(whole), width - whole); });
}

Schedule rowSchedule(StepLowering &step, int64_t width, int64_t handedBits) {
  return step.schedule("rows", {{"width", width}, {"handed_bits", handedBits}});
}
Schedule rowSchedule(StepLowering &step, int64_t width, Type element) {
  return rowSchedule(step, width, int64_t(element.getIntOrFloatBitWidth()));
}

int64_t handedBits(Operation *op) {
  int64_t bits = 32;
  for (Value result : op->getResults())
    if (auto tensor = dyn_cast<RankedTensorType>(result.getType()))
      bits = std::min<int64_t>(bits, tensor.getElementTypeBitWidth());
  return bits;
}

int64_t chunkOf(const Schedule &rowSchedule) {
  auto chunk = rowSchedule.find("chunk");
  return chunk == rowSchedule.end() ? 16 : chunk->second;
}

/// Σ v² over a row, 16 partial sums, then the tail.
static Value emitSquareSum(KernelBuilder &kb, Value x, Value row, int64_t width) {
  int64_t whole = width / 16 * 16;
  Values sums = kb.forLoop(kb.index(0), kb.index(whole), 16, kb.fill(0.0, 1, 16),
                           [&](Value col, ValueRange carried) {
                             Value v = kb.loadF32(x, {row, col}, {1, 16}, 1, 16);
                             return Values{kb.fma(v, v, carried[0])};
                           });
  Value sum = kb.extract(kb.reduce(tile::ReduceKind::Add, sums[0]), 0, 0);
  if (whole == width)
    return sum;
  Value tail = kb.loadF32(x, {row, kb.index(whole)}, {1, width - whole}, 1, width - whole);
  Value squares =
      kb.map(tail, 1, width - whole, [&](ValueRange args) { return kb.mulf(args[0], args[0]); });
  return kb.addf(sum, kb.extract(kb.reduce(tile::ReduceKind::Add, squares), 0, 0));
}

Value normScale(KernelBuilder &kb, Value squareSum, int64_t width, double eps) {
  Value mean = kb.divf(squareSum, kb.f32(double(width)));
  return kb.divf(kb.f32(1.0), kb.sqrtf(kb.addf(mean, kb.f32(eps))));
}

/// v · scale · (1 + w)
static Value scaled(KernelBuilder &kb, Value v, Value w, Value scale) {
  return kb.map({v, w}, 1, cast<tile::TileType>(v.getType()).getCols(), [&](ValueRange args) {
    return kb.mulf(kb.mulf(args[0], scale), kb.addf(args[1], kb.f32(1.0)));
  });
}

void emitNormRow(KernelBuilder &kb, Value x, Value xRow, Value weight, Value y, Value yRow,
                 int64_t width, double eps) {
  Value scale = normScale(kb, emitSquareSum(kb, x, xRow, width), width, eps);
  eachChunk(kb, width, 16, [&](Value col, int64_t cols) {
    Value v = kb.loadF32(x, {xRow, col}, {1, cols}, 1, cols);
    Value w = kb.load(weight, {col}, {cols}, 1, cols);
    storeRow(kb, scaled(kb, v, w, scale), y, yRow, col, width);
  });
}

void emitNormRowByWarps(KernelBuilder &kb, Value x, Value xRow, Value weight, Value y, Value yRow,
                        int64_t width, double eps, int64_t chunk) {
  Value parts = kb.alloc({kb.warps()}, kb.f32Type()), warp = kb.warpId();
  Values columns, pieces, factors;
  for (int64_t col = 0; col < width; col += chunk * kb.warps()) {
    columns.push_back(kb.add(kb.mul(warp, chunk), col));
    pieces.push_back(kb.loadF32(x, {xRow, columns.back()}, {1, chunk}, 1, chunk));
    factors.push_back(kb.load(weight, {columns.back()}, {chunk}, 1, chunk));
  }
  Value squares = kb.fill(0.0, 1, chunk);
  for (Value piece : pieces)
    squares = kb.fma(piece, piece, squares);
  kb.storeScalar(kb.extract(kb.reduce(tile::ReduceKind::Add, squares), 0, 0), parts, {warp});
  kb.barrier();
  Value sum = kb.loadScalar(parts, {kb.index(0)});
  for (int64_t i = 1; i < kb.warps(); ++i)
    sum = kb.addf(sum, kb.loadScalar(parts, {kb.index(i)}));
  Value scale = normScale(kb, sum, width, eps);
  for (auto [col, piece, factor] : llvm::zip(columns, pieces, factors))
    storeRow(kb, scaled(kb, piece, factor, scale), y, yRow, col, width);
}

std::pair<Value, Value> emitRotated(KernelBuilder &kb, Value first, Value second, Value cos,
                                    Value sin) {
  int64_t cols = cast<tile::TileType>(first.getType()).getCols();
  Value turned = kb.map({first, second, cos, sin}, 1, cols, [&](ValueRange v) {
    return kb.subf(kb.mulf(v[0], v[2]), kb.mulf(v[1], v[3]));
  });
  Value other = kb.map({first, second, cos, sin}, 1, cols, [&](ValueRange v) {
    return kb.addf(kb.mulf(v[1], v[2]), kb.mulf(v[0], v[3]));
  });
  return {turned, other};
}

void emitRotate(KernelBuilder &kb, Value head, Value row, Value table, Value tableRow,
                int64_t rotary) {
  int64_t half = rotary / 2, chunk = 16;
  while (half % chunk)
    chunk /= 2;
  auto rotate = [&](Value dim, Value other) {
    auto part = [&](Value view, Value at, Value from) {
      return kb.load(view, {at, from}, {1, chunk}, 1, chunk);
    };
    auto [first, second] = emitRotated(kb, part(head, row, dim), part(head, row, other),
                                       part(table, tableRow, dim), part(table, tableRow, other));
    kb.store(first, head, {row, dim}, {1, chunk});
    kb.store(second, head, {row, other}, {1, chunk});
  };
  // Many pieces are not written out: 63 of one dimension take a compiler minutes.
  if (half / chunk > 8)
    return kb.forLoop(kb.index(0), kb.index(half), chunk,
                      [&](Value dim) { rotate(dim, kb.add(dim, half)); });
  for (int64_t i = 0; i < half; i += chunk)
    rotate(kb.index(i), kb.index(half + i));
}

Value emitSwiglu(KernelBuilder &kb, Value gate, Value up, double alpha, double limit) {
  auto type = cast<tile::TileType>(gate.getType());
  return kb.map({gate, up}, type.getRows(), type.getCols(), [&](ValueRange args) {
    Value g = kb.minf(args[0], kb.f32(limit));
    Value u = kb.maxf(kb.minf(args[1], kb.f32(limit)), kb.f32(-limit));
    Value decay = kb.expf(kb.mulf(g, kb.f32(-alpha)));
    Value activated = kb.divf(g, kb.addf(decay, kb.f32(1.0)));
    return kb.mulf(kb.addf(u, kb.f32(1.0)), activated);
  });
}

void emitPairedSwiglu(KernelBuilder &kb, Value acc, bool apart, Value gateScale, Value upScale,
                      double alpha, double limit,
                      function_ref<void(Value z, int64_t output)> store) {
  auto type = cast<tile::TileType>(acc.getType());
  const int64_t outputs = type.getCols() / 2, each = apart ? outputs : panelOutputs;
  auto part = [&](int64_t index, Value scale) {
    Value values = kb.slice(acc, 0, index * each, type.getRows(), each);
    return scale ? kb.map(values, type.getRows(), each,
                          [&](ValueRange args) { return kb.mulf(args[0], scale); })
                 : values;
  };
  for (int64_t i = 0; i < outputs / each; ++i)
    store(emitSwiglu(kb, part(2 * i, gateScale), part(2 * i + 1, upScale), alpha, limit), i * each);
}

Value outerValue(m3::FusedOp fused, Value inner) {
  return fused.getInputs()[cast<BlockArgument>(inner).getArgNumber()];
}

} // namespace m3c::kernel
