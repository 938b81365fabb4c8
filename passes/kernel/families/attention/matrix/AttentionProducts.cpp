#include "passes/kernel/families/attention/matrix/AttentionProducts.h"

using namespace mlir;

namespace m3c::kernel {

void AttentionProducts::allocate(Value query) {
  this->query = query;
  if (cache.paired() && product == CodeProduct::Table)
    table = kb.alloc({256, 8}, kb.byteType());
  queries = m.allocQueries(query, 1, shape.dims);
}

void AttentionProducts::fillTable() {
  if (table)
    tile::CodeTableOp::create(kb.builder(), table);
}

void AttentionProducts::loadQueries(Value head) {
  m.storeQueries(query, head, shape.dims, kb.add(head, shape.group()), queries, kb.index(0));
}

Values AttentionProducts::added(Value stage, Value first, Value seen, ValueRange carried) {
  auto add = [&](Value limit) { return step(stage, first, limit, AttentionState::of(carried)); };
  return kb.choose(
      kb.less(seen, kb.i32(stepTokens)),
      [&] {
        auto limit = [&] { return kb.toIndex(seen); };
        return kb.choose(
            kb.less(kb.i32(0), seen), [&] { return add(limit()); },
            [&] { return Values(carried.begin(), carried.end()); });
      },
      [&] { return add({}); });
}

/// Adds the tokens from `first` on: all of a step, or those below `seen`. Nearly all steps are
/// whole ones, and compare nothing.
Values AttentionProducts::step(Value stage, Value first, Value seen, AttentionState state) {
  StagedSlot keys(m, cache, shape.dims, stage, 0, product, table);
  StagedSlot values(m, cache, shape.dims, stage, cache.slotBytes, product, table);
  const bool whole = m.queryParts(query) == 1;
  Values q = whole ? m.loadQueries(query, shape.dims, queries, kb.index(0)) : Values();
  Values scored;
  for (int64_t i = 0; i < operands(); ++i) {
    Value k = keys.keyColumns(tokenOf(first, i));
    scored.push_back(whole ? scores(q, k, i, seen) : visible(productOfParts(k), i, seen));
  }
  auto valuesOf = [&](int64_t i, Value limit) { return values.values(tokenOf(first, i), limit); };
  return add(state, scored, seen, valuesOf).all();
}

/// Scores of one operand of keys, where queries are several operands: one after the other in a
/// loop, since registers do not hold all of them beside the sums.
Value AttentionProducts::productOfParts(Value keys) {
  Value none = m.fill(0, m.acc(m.unit.k));
  Values sums = kb.forLoop(kb.index(0), kb.index(m.queryParts(query)), 1, none,
                           [&](Value part, ValueRange sum) {
                             Value q = m.loadQueries(query, shape.dims, queries, kb.index(0), part);
                             return Values{kb.mma(q, keys, sum[0])};
                           });
  sums.front().getDefiningOp()->setAttr("rolled", kb.builder().getUnitAttr());
  return sums.front();
}

} // namespace m3c::kernel
