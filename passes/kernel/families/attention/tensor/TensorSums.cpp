#include "passes/kernel/families/attention/tensor/TensorSums.h"

#include <numbers>

using namespace mlir;

namespace m3c::kernel {

void TensorSums::allocate() {
  values = kb.alloc({attentionHeads, shape.dims}, kb.f32Type());
  weights = kb.alloc({laneWarps, attentionHeads}, kb.f32Type());
  largestScores = kb.alloc({attentionHeads}, kb.f32Type());
}

Value TensorSums::scale() { return kb.f32(shape.scale * std::numbers::log2e); }

void TensorSums::storeRows(TensorTiles &t, Value warp, Value laneWeights, Value largest) {
  kb.store(t.reduce(tile::ReduceKind::Add, laneWeights), weights, {warp, kb.index(0)},
           {1, attentionHeads});
  kb.when(kb.equal(warp, kb.index(0)),
          [&] { t.storeLanes(largest, largestScores, {kb.index(0)}); });
}

Value TensorSums::load(Value view, ValueRange indices) {
  SmallVector<int64_t> box(indices.size(), 1);
  box.back() = shape.dims;
  return kb.load(view, indices, box, 1, shape.dims);
}

Value TensorSums::weight(Value head) {
  Value sum = kb.loadScalar(weights, {kb.index(0), head});
  for (int64_t warp = 1; warp < laneWarps; ++warp)
    sum = kb.addf(sum, kb.loadScalar(weights, {kb.index(warp), head}));
  return sum;
}

TensorSum TensorSums::own(Value head) {
  return {load(head), weight(head), kb.loadScalar(largestScores, {head})};
}

void TensorSums::keep(Value slot, Value head, const TensorSum &sum) {
  kb.store(sum.values, partValues, {slot, head, kb.index(0)}, {1, 1, shape.dims});
  kb.storeScalar(sum.largest, partRows, {slot, kb.index(0), head});
  kb.storeScalar(sum.weight, partRows, {slot, kb.index(1), head});
}

Value TensorSums::mean(Value sum, Value weight) {
  Value inverse = kb.divf(kb.f32(1), weight);
  Value factor = kb.selectf(kb.equalf(weight, kb.f32(0)), kb.f32(0), inverse);
  return kb.map(sum, 1, shape.dims, [&](ValueRange args) { return kb.mulf(args[0], factor); });
}

TensorSum TensorSums::merged(Value base, Value count, Value head) {
  auto each = [&](ValueRange start, function_ref<Values(Value slot, ValueRange carried)> body) {
    return kb.forLoop(kb.index(0), count, 1, start,
                      [&](Value i, ValueRange carried) { return body(kb.add(base, i), carried); });
  };
  auto largestOf = [&](Value slot) { return kb.loadScalar(partRows, {slot, kb.index(0), head}); };
  Value largest = each(kb.f32(lowestScore), [&](Value slot, ValueRange carried) {
    return Values{kb.maxf(carried[0], largestOf(slot))};
  })[0];
  Value none = kb.fill(0, 1, shape.dims);
  Values total = each({none, kb.f32(0)}, [&](Value slot, ValueRange carried) {
    // Where there was no key the largest score is that of no key; its share is nothing.
    Value own = largestOf(slot);
    Value share = kb.exp2f(kb.mulf(kb.subf(own, largest), scale()));
    Value keep = kb.selectf(kb.lessf(kb.f32(lowestScore), own), share, kb.f32(0));
    Value sum = kb.map({load(partValues, {slot, head, kb.index(0)}), carried[0]}, 1, shape.dims,
                       [&](ValueRange args) { return kb.fmaf(args[0], keep, args[1]); });
    Value weight = kb.loadScalar(partRows, {slot, kb.index(1), head});
    return Values{sum, kb.fmaf(weight, keep, carried[1])};
  });
  return {total[0], total[1], largest};
}

} // namespace m3c::kernel
