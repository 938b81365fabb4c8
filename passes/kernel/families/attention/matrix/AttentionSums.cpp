#include "passes/kernel/families/attention/matrix/AttentionSums.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

/// Groups of an accumulator's columns that a warp merges at a time.
constexpr int64_t mergeGroups = 2;

} // namespace

void AttentionSums::store(SumsView to, Value slot, Value group, Value acc) {
  int64_t count = cast<tile::TileType>(acc.getType()).getCols();
  kb.store(acc, to.values, {slot, group, kb.index(0), kb.index(0)}, m.accBox(count, 1));
}

void AttentionSums::storeRows(SumsView to, Value slot, Value largest, Value weights) {
  kb.store(largest, to.rows, {slot, kb.index(0), kb.index(0)}, {1, 1, 16});
  kb.store(weights, to.rows, {slot, kb.index(1), kb.index(0)}, {1, 1, 16});
}

Value AttentionSums::loadRows(SumsView from, Value slot, int64_t which) {
  return tile::LoadOp::create(kb.builder(), m.rows(), from.rows,
                              ValueRange{slot, kb.index(which), kb.index(0)},
                              ArrayRef<int64_t>{1, 1, 16});
}

SumsSources AttentionSums::slots(SumsView sums, Value base, Value count, int64_t most) {
  return {[=, this](Value i) { return std::pair(sums, kb.add(base, i)); }, count, most};
}

int64_t AttentionSums::columns() const { return mergeGroups * m.unit.columns; }

/// Calls `body` for a source after the other; those past the filled ones repeat the last, and
/// `filled` is false. All reads of a few sources are then under way together.
Values AttentionSums::eachSource(const SumsSources &from, ValueRange start, EachBody body) {
  bool unroll = from.most <= 16;
  Value end = unroll ? kb.index(from.most) : from.count;
  return kb.forLoop(
      kb.index(0), end, 1, start,
      [&](Value i, ValueRange carried) {
        auto [sums, slot] = from.at(kb.min(i, kb.add(from.count, -1)));
        return body(sums, slot, kb.less(i, from.count), carried);
      },
      unroll);
}

void AttentionSums::merge(const SumsSources &from, Value sharer, int64_t sharers,
                          const SumsBody &body) {
  Value first = kb.mul(kb.add(kb.mul(kb.warpId(), sharers), sharer), mergeGroups);
  kb.forLoop(first, kb.index(dims / m.unit.columns), mergeGroups * sharers * warps,
             [&](Value group) {
               auto larger = [&](SumsView sums, Value slot, Value, ValueRange carried) {
                 return Values{kb.map({carried[0], loadRows(sums, slot, 0)}, m.rows(),
                                      [&](ValueRange args) { return kb.maxf(args[0], args[1]); })};
               };
               Value largest = eachSource(from, m.fill(noScore, m.rows()), larger)[0];
               Values start = {m.fill(0, m.acc(columns())), m.fill(0, m.rows())};
               Values sums = eachSource(
                   from, start, [&](SumsView sums, Value slot, Value filled, ValueRange carried) {
                     return added(sums, slot, filled, group, largest, carried);
                   });
               body(group, sums[0], sums[1], largest);
             });
}

Values AttentionSums::added(SumsView from, Value slot, Value filled, Value group, Value largest,
                            ValueRange carried) {
  // Where there was no key the largest score is that of no key; its share is nothing.
  Value keep = kb.map({loadRows(from, slot, 0), largest}, m.rows(), [&](ValueRange args) {
    Value share = kb.exp2f(kb.mulf(kb.subf(args[0], args[1]), kb.f32(scale)));
    return kb.selectf(kb.both(filled, kb.lessf(kb.f32(noScore), args[0])), share, kb.f32(0));
  });
  Value values = tile::LoadOp::create(kb.builder(), m.acc(columns()), from.values,
                                      ValueRange{slot, group, kb.index(0), kb.index(0)},
                                      m.accBox(columns(), 1));
  auto add = [&](Value part, Value sum) {
    return kb.map({part, keep, sum}, cast<tile::TileType>(sum.getType()),
                  [&](ValueRange args) { return kb.fmaf(args[0], args[1], args[2]); });
  };
  return {add(values, carried[0]), add(loadRows(from, slot, 1), carried[1])};
}

} // namespace m3c::kernel
