#include "passes/kernel/families/attention/FlatRows.h"

#include "passes/kernel/families/cache/WorkShare.h"

using namespace mlir;

namespace m3c::kernel {

void FlatRows::allocate() {
  ends = kb.alloc({mostRows}, kb.i32Type());
  used = kb.alloc({1}, kb.i32Type());
}

Value FlatRows::upTo(Value last) {
  return kb.map(kb.iota(lanes), numbers(), [&](ValueRange args) { return kb.min(args[0], last); });
}

Value FlatRows::total(Value counts) {
  return kb.extract(kb.reduce(tile::ReduceKind::Add, counts), 0, 0);
}

void FlatRows::lay() {
  Value zero = kb.i32(0);
  Values laid =
      kb.forLoop(kb.index(0), batch.rows, lanes, {zero, zero}, [&](Value from, ValueRange carried) {
        Value newest = kb.toI32(kb.add(kb.sub(batch.rows, from), -1));
        Value position = kb.gather(batch.positions, from, upTo(newest));
        Value count = kb.map({position, kb.iota(lanes)}, numbers(), [&](ValueRange args) {
          Value block = arith::DivSIOp::create(kb.builder(), args[0], kb.i32(m3::blockTokens));
          Value pages = kb.add(block, kb.i32(1));
          if (selected)
            pages = kb.min(pages, kb.i32(selected));
          return kb.selectf(kb.less(newest, args[1]), zero, pages);
        });
        Value end = kb.map({kb.scan(count), count}, numbers(), [&](ValueRange args) {
          return kb.add(kb.add(args[0], args[1]), carried[0]);
        });
        kb.store(end, ends, {from}, {lanes});
        return Values{kb.add(carried[0], total(count)),
                      kb.add(carried[1], followers(from, newest))};
      });
  Value alike = kb.equal(laid[1], kb.toI32(kb.add(batch.rows, -1))); // of one sequence
  Value pages = kb.toIndex(laid[0]);
  Value cut = kb.min(emitFlatParts(kb, most, batch.rows, alike), pages); // none without pages
  kb.storeScalar(cut, used, {kb.index(0)});
}

Value FlatRows::followers(Value from, Value newest) {
  if (selected) // each row has a list of its own
    return kb.i32(0);
  Value start = kb.toI32(from);
  Value row =
      kb.map(upTo(newest), numbers(), [&](ValueRange args) { return kb.add(args[0], start); });
  Value before = kb.map(row, numbers(), [&](ValueRange args) {
    return kb.max(kb.add(args[0], kb.i32(-1)), kb.i32(0));
  });
  Value zero = kb.index(0);
  Value own = kb.gather(batch.sequences, zero, row);
  Value other = kb.gather(batch.sequences, zero, before);
  return total(kb.map({own, other, row}, numbers(), [&](ValueRange args) {
    Value same = kb.both(kb.equal(args[0], args[1]), kb.less(kb.i32(0), args[2]));
    return kb.selectf(same, kb.i32(1), kb.i32(0));
  }));
}

void FlatRows::divide(Value part) {
  parts = kb.loadIndex(used, {kb.index(0)});
  all = endOf(kb.add(batch.rows, -1));
  EmittedShare share = emitStretch(kb, all, parts, part);
  // Those past the last have nothing.
  Value mine = kb.less(part, parts);
  begin = kb.selectf(mine, share.begin, all);
  end = kb.selectf(mine, share.end, all);
  // A page's row: as many as end before it or with it.
  Value none = kb.fill(kb.i32(0), 1, lanes), to = kb.toI32(end), at = kb.toI32(begin);
  Values before =
      kb.forLoop(kb.index(0), batch.rows, lanes, {none, none}, [&](Value from, ValueRange carried) {
        Value rows = kb.toI32(kb.sub(batch.rows, from));
        Value rowEnds = kb.load(ends, {from}, {lanes}, 1, lanes);
        auto counted = [&](Value counts, Value limit) {
          return kb.map({counts, rowEnds, kb.iota(lanes)}, numbers(), [&](ValueRange args) {
            Value passed = kb.both(kb.less(args[1], limit), kb.less(args[2], rows));
            return kb.selectf(passed, kb.add(args[0], kb.i32(1)), args[0]);
          });
        };
        return Values{counted(carried[0], kb.add(at, kb.i32(1))), counted(carried[1], to)};
      });
  auto index = [&](Value counts) { return Value(kb.toIndex(total(counts))); };
  first = index(before[0]);
  last = index(before[1]);
}

Value FlatRows::startOf(Value row) {
  Value before = kb.loadIndex(ends, {kb.max(kb.add(row, -1), kb.index(0))});
  return kb.selectf(kb.less(kb.index(0), row), before, kb.index(0));
}

std::pair<Value, Value> FlatRows::ownOf(Value row) {
  return {kb.max(startOf(row), begin), kb.min(endOf(row), end)};
}

Value FlatRows::isShared(Value row) {
  return kb.either(kb.less(startOf(row), begin), kb.less(end, endOf(row)));
}

std::pair<Value, Value> FlatRows::partsOf(Value row) {
  Value from = emitPartOf(kb, all, parts, startOf(row));
  Value to = emitPartOf(kb, all, parts, kb.add(endOf(row), -1));
  return {from, kb.add(kb.sub(to, from), 1)};
}

std::pair<Value, Value> FlatRows::find(Value pages) {
  Value row = kb.fill(kb.toI32(first), 1, lanes),
        start = kb.fill(kb.toI32(startOf(first)), 1, lanes);
  Values found = kb.forLoop(first, last, 1, {row, start}, [&](Value before, ValueRange carried) {
    Value rowEnd = kb.toI32(endOf(before));
    auto passed = [&](Value value, function_ref<Value(Value)> next) {
      return kb.map({pages, value}, numbers(), [&](ValueRange args) {
        return kb.selectf(kb.less(args[0], rowEnd), args[1], next(args[1]));
      });
    };
    return Values{passed(carried[0], [&](Value row) { return kb.add(row, kb.i32(1)); }),
                  passed(carried[1], [&](Value) { return rowEnd; })};
  });
  Value place = kb.map({pages, found[1]}, numbers(),
                       [&](ValueRange args) { return kb.sub(args[0], args[1]); });
  return {found[0], place};
}

//===- Pages ----------------------------------------------------------------------------------===//

void FlatPages::allocate() {
  pages = kb.alloc({loaders, listed}, kb.i32Type());
  seenKeys = kb.alloc({loaders, held}, kb.i32Type());
}

void FlatPages::list(Value use, Value kvHead, Value loader, Value selection) {
  auto numbers = kb.tile(1, listed, kb.i32Type());
  Value zero = kb.index(0), newest = kb.toI32(kb.add(rows.end, -1));
  Value from = kb.toI32(kb.add(rows.begin, use));
  Value page = kb.map(kb.iota(listed), numbers,
                      [&](ValueRange args) { return kb.min(kb.add(args[0], from), newest); });
  auto [row, place] = rows.find(page);
  Value block = selection ? kb.gather(selection, zero, inSelections(kvHead, row, place)) : place;
  Value past = kb.gather(batch.positions, zero, row);
  Value sequence = kb.gather(batch.sequences, zero, row);
  Value length = kb.toI32(batch.tableLength);
  Value entry = kb.map({sequence, block}, numbers, [&](ValueRange args) {
    Value start = arith::MulIOp::create(kb.builder(), args[0], length);
    return kb.add(start, kb.max(args[1], kb.i32(0)));
  });
  // A list that ends early has no keys there.
  Value seen = kb.map({past, block}, numbers, [&](ValueRange args) {
    Value before = arith::MulIOp::create(kb.builder(), args[1], kb.i32(m3::blockTokens));
    Value left = kb.sub(kb.add(args[0], kb.i32(1)), before);
    return kb.selectf(kb.less(args[1], kb.i32(0)), kb.i32(0), left);
  });
  kb.store(kb.gather(batch.table, zero, entry), pages, {loader, zero}, {1, listed});
  kb.store(seen, seenKeys, {loader, kb.rem(use, held)}, {1, listed});
}

Value FlatPages::inSelections(Value kvHead, Value row, Value place) {
  Value head = kb.toI32(kvHead);
  return kb.map({row, place}, kb.tile(1, listed, kb.i32Type()), [&](ValueRange args) {
    auto times = [&](Value x, int64_t y) {
      return Value(arith::MulIOp::create(kb.builder(), x, kb.i32(y)));
    };
    Value list = kb.add(times(args[0], shape.kvHeads), head);
    return kb.add(times(list, shape.selected), args[1]);
  });
}

Value FlatPages::seen(Value use) {
  Value from = loaders == 1 ? kb.index(0) : kb.rem(use, loaders);
  return kb.loadIndex(seenKeys, {from, kb.rem(use, held)});
}

//===- Sums -----------------------------------------------------------------------------------===//

PartMemory FlatSums::memory(int64_t stepRows, const Schedule &schedule, ArrayRef<int64_t> values) {
  int64_t parts = schedule.at("parts"), fan = fanOf(schedule);
  int64_t groups = parts > fan ? flatGroups(parts, stepRows, fan) : 0;
  return {flatSlots(parts, stepRows) + groups, stepRows + groups, SmallVector<int64_t>(values)};
}

Value FlatSums::own(Value kvHead, Value part, Value row) {
  return kb.add(kb.mul(kvHead, slotsOfHead()), kb.add(part, row));
}

Value FlatSums::groupsOfHead() { return kb.add(kb.add(kb.div(slotsOfHead(), fan), batch.rows), 1); }

void FlatSums::eachShared(function_ref<void(Value row)> body) {
  kb.forLoop(kb.index(0), kb.index(2), 1, [&](Value side) {
    Value isFirst = kb.equal(side, kb.index(0));
    Value row = kb.selectf(isFirst, rows.first, rows.last);
    Value another = kb.either(isFirst, kb.less(rows.first, rows.last));
    kb.when(kb.both(another, rows.isShared(row)), [&] { body(row); });
  });
}

void FlatSums::meet(Value kvHead, Value part, Value row, Value arrivals,
                    function_ref<void(const SlotRun &, Value)> group,
                    function_ref<void(const SlotRun &)> all) {
  auto [first, count] = rows.partsOf(row);
  Value slot = kb.add(first, row); // of the KV head's
  Value base = kb.add(kb.mul(kvHead, slotsOfHead()), slot);
  Value groups = hasGroups() ? groupsOfHead() : kb.index(0);
  Value counter = kb.mul(kvHead, kb.add(batch.rows, groups)), rowCounter = kb.add(counter, row);
  auto addAll = [&](Value base, Value count, int64_t most) {
    Value last = kb.arriveLast(arrivals, rowCounter, count);
    kb.when(last, [&] { all({base, count, most}); });
  };
  if (!hasGroups())
    return addAll(base, count, parts);
  // Slots of groups are behind those of the parts of all KV heads.
  Value firstGroup = kb.add(kb.div(slot, fan), row);
  Value groupBase =
      kb.add(kb.mul(slotsOfHead(), kvHeads), kb.add(kb.mul(kvHead, groups), firstGroup));
  Values found = kb.choose(
      kb.less(kb.index(fan), count),
      [&] {
        Value number = kb.div(kb.sub(part, first), fan), from = kb.mul(number, fan);
        Value members = kb.min(kb.sub(count, from), kb.index(fan));
        Value groupCounter = kb.add(kb.add(counter, batch.rows), kb.add(firstGroup, number));
        Value last = kb.arriveLast(arrivals, groupCounter, members);
        kb.when(last,
                [&] { group({kb.add(base, from), members, fan}, kb.add(groupBase, number)); });
        return Values{groupBase, kb.ceilDiv(count, fan),
                      kb.selectf(last, kb.index(1), kb.index(0))};
      },
      [&] { return Values{base, count, kb.index(1)}; });
  kb.when(kb.less(kb.index(0), found[2]), [&] {
    addAll(found[0], found[1], std::max(fan, int64_t(llvm::divideCeil(parts, fan))));
  });
}

} // namespace m3c::kernel
