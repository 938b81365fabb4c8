#include "passes/kernel/families/attention/matrix/AttentionSteps.h"

#include "passes/kernel/families/attention/matrix/AttentionSums.h"

using namespace mlir;

namespace m3c::kernel {

AttentionState AttentionSteps::nothing() {
  return {m.fill(0, m.acc(shape.dims)), m.fill(0, m.acc(m.unit.columns)),
          m.fill(noScore, m.rows())};
}

Value AttentionSteps::product(ValueRange queries, Value keys) {
  Value score = m.mma(queries.front(), keys, operandTokens);
  for (Value rest : queries.drop_front())
    score = kb.mma(rest, keys, score);
  return score;
}

Value AttentionSteps::visible(Value score, int64_t operand, Value seen) {
  if (!seen)
    return score;
  Value left = kb.toI32(kb.sub(seen, kb.index(operand * operandTokens)));
  return kb.map({score, token}, m.acc(operandTokens), [&](ValueRange args) {
    return kb.selectf(kb.less(args[1], left), args[0], kb.f32(noScore));
  });
}

Value AttentionSteps::limitOf(Value seen, int64_t operand) {
  return seen ? kb.sub(seen, kb.index(operand * operandTokens)) : kb.index(operandTokens);
}

AttentionState AttentionSteps::add(AttentionState state, ValueRange scores, Value seen,
                                   function_ref<Value(int64_t operand, Value limit)> values) {
  state = rescaled(state, scores);
  Value shift =
      kb.map(state.largest, m.rows(), [&](ValueRange args) { return kb.mulf(args[0], scale()); });
  for (auto [i, score] : llvm::enumerate(scores)) {
    Value weights = kb.map({score, shift}, m.acc(operandTokens), [&](ValueRange args) {
      Value negative = arith::NegFOp::create(kb.builder(), args[1]);
      return kb.exp2f(kb.fmaf(args[0], scale(), negative));
    });
    Value p = m.toLeft(weights);
    auto operand = int64_t(i);
    Value v = values(operand, limitOf(seen, operand));
    state.values = kb.mma(p, v, state.values);
    // Weights are summed as they are multiplied, rounded: their mean is then exact.
    Value ones = m.fill(1, m.right(operandTokens, m.unit.columns));
    state.weights = kb.mma(p, ones, state.weights);
  }
  return state;
}

/// The state with a maximum that these scores do not exceed by much.
AttentionState AttentionSteps::rescaled(AttentionState state, ValueRange scores) {
  Value all = scores.front();
  for (Value more : scores.drop_front())
    all = kb.map({all, more}, m.acc(operandTokens),
                 [&](ValueRange args) { return kb.maxOrNan(args[0], args[1]); });
  // A NaN is passed over; the weights that it makes are NaN whatever is subtracted.
  Value top = m.rowsMax(all);
  double slack = slackBits / scaleBits();
  Value grows =
      kb.map({top, state.largest}, m.rows(kb.builder().getI1Type()),
             [&](ValueRange args) { return kb.lessf(kb.addf(args[1], kb.f32(slack)), args[0]); });
  return AttentionState::of(kb.choose(
      m.any(grows),
      [&] {
        Value now = kb.map({top, state.largest}, m.rows(),
                           [&](ValueRange args) { return kb.maxf(args[0], args[1]); });
        Value keep = kb.map({state.largest, now}, m.rows(), [&](ValueRange args) {
          return kb.exp2f(kb.mulf(kb.subf(args[0], args[1]), scale()));
        });
        auto kept = [&](Value sums) {
          return kb.map({sums, keep}, cast<tile::TileType>(sums.getType()),
                        [&](ValueRange args) { return kb.mulf(args[0], args[1]); });
        };
        return Values{kept(state.values), kept(state.weights), now};
      },
      [&] { return state.all(); }));
}

Value AttentionSteps::mean(Value values, Value weights) {
  return kb.map({values, weights}, cast<tile::TileType>(values.getType()), [&](ValueRange args) {
    Value inverse = kb.divf(kb.f32(1), args[1]);
    return kb.mulf(args[0], kb.selectf(kb.equalf(args[1], kb.f32(0)), kb.f32(0), inverse));
  });
}

void AttentionSteps::store(Value mean, Value out, Value head, Value group) {
  tile::StoreSpreadOp::create(kb.builder(), mean, out, ValueRange{head, group},
                              uint64_t(shape.dims / m.unit.columns), kb.index(shape.group()));
}

} // namespace m3c::kernel
