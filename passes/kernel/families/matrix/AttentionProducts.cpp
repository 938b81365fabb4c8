#include "passes/kernel/families/matrix/AttentionProducts.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

/// A maximum that grows by less than 2^this is left: weights then go up to 2^this, which neither
/// FP16 nor the FP32 sums mind, and sums are seldom rescaled.
constexpr double slackBits = 8;

} // namespace

void AttentionProducts::allocate() {
  if (cache.paired() && product == CodeProduct::Table)
    table = kb.alloc({256, 8}, kb.byteType());
  queries = kb.alloc(m.queryBox(shape.dims), m.queryBits());
}

void AttentionProducts::fillTable() {
  if (table)
    tile::CodeTableOp::create(kb.builder(), table);
}

void AttentionProducts::loadQueries(Value query, Value head) {
  Value q = m.loadLeft(query, head, shape.dims, kb.add(head, shape.group()));
  kb.store(q, queries, zeros(3), m.queryBox(shape.dims));
}

AttentionProducts::State AttentionProducts::none() {
  return {m.fill(0, m.acc(shape.dims)), m.fill(0, m.acc(m.unit.columns)),
          m.fill(noScore, m.rows())};
}

Values AttentionProducts::added(Value stage, Value first, Value seen, ValueRange carried) {
  auto add = [&](Value limit) { return step(stage, first, limit, State::of(carried)); };
  return kb.choose(
      kb.less(seen, kb.index(stepTokens)),
      [&] {
        return kb.choose(
            kb.less(kb.index(0), seen), [&] { return add(seen); },
            [&] { return Values(carried.begin(), carried.end()); });
      },
      [&] { return add({}); });
}

/// Adds the tokens from `first` on: all of a step, or those below `seen`. Nearly all steps are
/// whole ones, and compare nothing.
Values AttentionProducts::step(Value stage, Value first, Value seen, State state) {
  StagedSlot keys(m, cache, shape.dims, stage, 0, product, table);
  StagedSlot values(m, cache, shape.dims, stage, cache.slotBytes, product, table);
  Value q = tile::LoadOp::create(kb.builder(), m.queries(shape.dims), queries, zeros(3),
                                 m.queryBox(shape.dims));
  auto at = [&](int64_t operand) { return kb.add(first, operand * operandTokens); };
  Values scores;
  for (int64_t i = 0; i < stepTokens / operandTokens; ++i) {
    Value score = m.mma(q, keys.keyColumns(at(i)), operandTokens);
    scores.push_back(seen ? masked(score, kb.sub(seen, kb.index(i * operandTokens))) : score);
  }
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
    Value limit = seen ? kb.sub(seen, kb.index(operand * operandTokens)) : kb.index(operandTokens);
    Value v = values.values(at(operand), limit);
    state.values = kb.mma(p, v, state.values);
    // Weights are summed as they are multiplied, rounded: their mean is then exact.
    Value ones = m.fill(1, m.right(operandTokens, m.unit.columns));
    state.weights = kb.mma(p, ones, state.weights);
  }
  return state.all();
}

/// Scores of the tokens below `seen`.
Value AttentionProducts::masked(Value score, Value seen) {
  Value left = kb.toI32(seen);
  return kb.map({score, token}, m.acc(operandTokens), [&](ValueRange args) {
    return kb.selectf(kb.less(args[1], left), args[0], kb.f32(noScore));
  });
}

/// The state with a maximum that these scores do not exceed by much.
AttentionProducts::State AttentionProducts::rescaled(State state, ValueRange scores) {
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
  return State::of(kb.choose(
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
      [&] { return Values(state.all()); }));
}

Value AttentionProducts::mean(Value values, Value weights) {
  return kb.map({values, weights}, cast<tile::TileType>(values.getType()), [&](ValueRange args) {
    Value inverse = kb.divf(kb.f32(1), args[1]);
    return kb.mulf(args[0], kb.selectf(kb.equalf(args[1], kb.f32(0)), kb.f32(0), inverse));
  });
}

void AttentionProducts::store(Value mean, Value out, Value head, Value group) {
  tile::StoreSpreadOp::create(kb.builder(), mean, out, ValueRange{head, group},
                              uint64_t(shape.dims / m.unit.columns), kb.index(shape.group()));
}

} // namespace m3c::kernel
