#include "passes/kernel/families/attention/matrix/AttentionProducts.h"

using namespace mlir;

namespace m3c::kernel {

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

Values AttentionProducts::added(Value stage, Value first, Value seen, ValueRange carried) {
  auto add = [&](Value limit) { return step(stage, first, limit, AttentionState::of(carried)); };
  return kb.choose(
      kb.less(seen, kb.i32(stepTokens)),
      [&] {
        auto limit = [&] {
          return arith::IndexCastOp::create(kb.builder(), kb.builder().getIndexType(), seen);
        };
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
  Value q = tile::LoadOp::create(kb.builder(), m.queries(shape.dims), queries, zeros(3),
                                 m.queryBox(shape.dims));
  Values scored;
  for (int64_t i = 0; i < operands(); ++i)
    scored.push_back(scores(q, keys.keyColumns(tokenOf(first, i)), i, seen));
  auto valuesOf = [&](int64_t i, Value limit) { return values.values(tokenOf(first, i), limit); };
  return add(state, scored, seen, valuesOf).all();
}

} // namespace m3c::kernel
