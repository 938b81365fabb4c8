// The launch that lists which rows chose each block.
#include "passes/kernel/families/attention/outer/KvOuter.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

/// Entries that a warp looks at together.
constexpr int64_t lanes = 32, lines = 4, atOnce = lanes * lines;

} // namespace

PageLists::PageLists(KernelBuilder &kb, const KvOuter &outer, BatchRows &batch,
                     const RowsAtOnce &rows, const Views &views, Value kvHead)
    : kb(kb), outer(outer), batch(batch), rows(rows), views(views), kvHead(kvHead) {
  Value most =
      kb.add(kb.mul(batch.tableLength, outer.together), kb.mul(rows.most, outer.shape.selected));
  base = kb.mul(kvHead, most);
}

int64_t PageLists::fixedBytes(const KvOuter &outer, int64_t mostRows) {
  return outer.shape.kvHeads * mostRows * outer.shape.selected * 4;
}
int64_t PageLists::blockBytes(const KvOuter &outer) {
  return outer.shape.kvHeads * outer.together * 4;
}

/// The choices of some rows for a KV head, numbered row by row; each warp has a share of them.
struct PageLists::Choices {
  Choices(KernelBuilder &kb, const KvOuter &outer, Value selection, Value firstRow, Value rows,
          Value kvHead)
      : kb(kb), selected(outer.shape.selected), kvHeads(outer.shape.kvHeads), selection(selection),
        type(kb.tile(lines, lanes, kb.i32Type())), conditions(kb.tile(lines, lanes, bit())),
        number(kb.reshape(kb.iota(atOnce), lines, lanes)) {
    Value count = kb.mul(rows, selected);
    Value size = kb.mul(kb.ceilDiv(kb.ceilDiv(count, kb.warps()), atOnce), atOnce);
    from = kb.min(kb.mul(size, kb.warpId()), count);
    to = kb.min(kb.add(from, size), count);
    origin = kb.mul(kb.add(kb.mul(firstRow, kvHeads), kvHead), selected);
  }

  /// Calls `body` with the numbers and blocks of the choices from i on, of which the first `left`
  /// count; the others repeat the last.
  Values
  each(ValueRange start,
       function_ref<Values(Value numbers, Value blocks, Value left, ValueRange carried)> body) {
    return kb.forLoop(from, to, atOnce, start, [&](Value i, ValueRange carried) {
      Value left = kb.toI32(kb.sub(to, i)), first = kb.toI32(i);
      Value numbers = kb.map(number, type, [&](ValueRange args) {
        return kb.add(kb.min(args[0], kb.sub(left, kb.i32(1))), first);
      });
      // Choices of a row and KV head stand side by side.
      Value places = kvHeads == 1 ? numbers : kb.map(numbers, type, [&](ValueRange args) {
        Value row = quotient(args[0]);
        Value choice = kb.sub(args[0], times(row, selected));
        return kb.add(times(row, kvHeads * selected), choice);
      });
      return body(numbers, kb.gather(selection, origin, places), left, carried);
    });
  }
  /// The row of a number.
  Value quotient(Value number) {
    return arith::DivSIOp::create(kb.builder(), number, kb.i32(selected));
  }
  Value times(Value a, int64_t b) { return arith::MulIOp::create(kb.builder(), a, kb.i32(b)); }
  /// Of the choices that count those whose block `is` holds for.
  Value where(Value blocks, Value left, function_ref<Value(Value block)> is) {
    return kb.map({blocks, number}, conditions,
                  [&](ValueRange args) { return kb.both(is(args[0]), kb.less(args[1], left)); });
  }
  Value counted(Value sum, Value takes) {
    return kb.map({sum, takes}, type, [&](ValueRange args) {
      return kb.add(args[0], kb.selectf(args[1], kb.i32(1), kb.i32(0)));
    });
  }
  Value total(Value tile) {
    Value sum = kb.reduce(tile::ReduceKind::Add, kb.reshape(tile, 1, atOnce));
    return asIndex(kb.extract(sum, 0, 0));
  }
  Value asIndex(Value number) {
    return arith::IndexCastOp::create(kb.builder(), kb.builder().getIndexType(), number);
  }
  Type bit() { return kb.builder().getI1Type(); }

  KernelBuilder &kb;
  const int64_t selected, kvHeads;
  Value selection;
  tile::TileType type, conditions;
  Value number, from, to, origin;
};

/// Of the first `count` rows, by all warps.
Value PageLists::lastPosition(Value count) {
  auto type = kb.tile(1, atOnce, kb.i32Type());
  Value number = kb.iota(atOnce), warp = kb.warpId();
  Value start = kb.map(number, type, [&](ValueRange) { return kb.i32(0); });
  Value most = kb.forLoop(
      kb.mul(warp, atOnce), count, kb.warps() * atOnce, start, [&](Value i, ValueRange carried) {
        Value last = kb.toI32(kb.sub(kb.add(count, -1), i));
        Value places = kb.map(number, type, [&](ValueRange args) { return kb.min(args[0], last); });
        Value found = kb.gather(batch.positions, kb.add(rows.first, i), places);
        return Values{kb.map({carried[0], found}, type,
                             [&](ValueRange args) { return kb.max(args[0], args[1]); })};
      })[0];
  Value ofWarps = kb.alloc({kb.warps()}, kb.i32Type());
  Value own = kb.extract(kb.reduce(tile::ReduceKind::Max, most), 0, 0);
  kb.storeScalar(own, ofWarps, {warp});
  kb.barrier();
  Value position = kb.index(0);
  for (int64_t w = 0; w < kb.warps(); ++w)
    position = kb.max(position, kb.loadIndex(ofWarps, {kb.index(w)}));
  return position;
}

void PageLists::list(Value selection, Value block) {
  Value zero = kb.index(0), warp = kb.warpId();
  Value given = kb.max(kb.min(kb.sub(batch.rows, rows.first), rows.most), zero);
  Value blocks = kb.add(kb.div(lastPosition(given), m3::blockTokens), 1);
  kb.when(kb.less(block, blocks), [&] {
    Choices choices(kb, outer, selection, rows.first, given, kvHead);
    Value own = kb.toI32(block);
    auto isOwn = [&](Value id) { return kb.equal(id, own); };
    auto isEarlier = [&](Value id) { return kb.both(kb.atLeast(id, kb.i32(0)), kb.less(id, own)); };
    Value none = kb.map(choices.number, choices.type, [&](ValueRange) { return kb.i32(0); });
    Values sums = choices.each({none, none}, [&](Value, Value ids, Value left, ValueRange carried) {
      return Values{choices.counted(carried[0], choices.where(ids, left, isEarlier)),
                    choices.counted(carried[1], choices.where(ids, left, isOwn))};
    });
    Value counts = kb.alloc({kb.warps(), 2}, kb.i32Type());
    for (int64_t i = 0; i < 2; ++i)
      kb.storeScalar(choices.total(sums[size_t(i)]), counts, {warp, kb.index(i)});
    kb.barrier();
    // Entries of earlier blocks come first, of its own those of earlier warps.
    Value begin = zero, count = zero, before = zero;
    for (int64_t w = 0; w < kb.warps(); ++w) {
      Value owned = kb.loadIndex(counts, {kb.index(w), kb.index(1)});
      begin = kb.add(begin, kb.loadIndex(counts, {kb.index(w), zero}));
      count = kb.add(count, owned);
      before = kb.add(before, kb.selectf(kb.less(kb.index(w), warp), owned, zero));
    }
    Value start = place(firstTile(block, begin)), end = kb.add(begin, count);
    fill(choices, block, kb.add(start, before));
    kb.when(kb.equal(warp, zero), [&] {
      Value next = firstTile(kb.add(block, 1), end);
      pad(kb.add(start, count), place(next));
      kb.when(kb.equal(kb.add(block, 1), blocks),
              [&] { kb.storeScalar(next, views.tiles, {kvHead}); });
    });
  });
}

/// The warp's entries of its block, from place `start` on.
void PageLists::fill(Choices &choices, Value block, Value start) {
  auto &b = kb.builder();
  Value own = kb.toI32(block), past = kb.toI32(kb.sub(kb.index(1), kb.mul(block, m3::blockTokens)));
  Value stride = kb.toI32(batch.tableLength);
  choices.each(start, [&](Value numbers, Value ids, Value left, ValueRange carried) {
    Value takes = choices.where(ids, left, [&](Value id) { return kb.equal(id, own); });
    Value count = tile::CountOp::create(b, b.getIndexType(), takes);
    kb.when(kb.less(kb.index(0), count), [&] {
      Value ofRows =
          kb.map(numbers, choices.type, [&](ValueRange args) { return choices.quotient(args[0]); });
      Value line =
          kb.map(kb.gather(batch.sequences, rows.first, ofRows), choices.type,
                 [&](ValueRange args) { return Value(arith::MulIOp::create(b, args[0], stride)); });
      Value pages = kb.gather(batch.table, block, line);
      Value seen = kb.map(
          kb.gather(batch.positions, rows.first, ofRows), choices.type,
          [&](ValueRange args) { return kb.min(kb.add(args[0], past), kb.i32(m3::blockTokens)); });
      for (auto [values, view] : {std::pair(numbers, views.entries), std::pair(pages, views.pages),
                                  std::pair(seen, views.seen)})
        tile::CompactOp::create(b, values, view, ValueRange{carried[0]}, takes, kb.index(atOnce));
    });
    return Values{kb.add(carried[0], count)};
  });
}

/// No entries from one place to another, fewer than `lanes`.
void PageLists::pad(Value from, Value to) {
  auto type = kb.tile(1, lanes, kb.i32Type());
  Value count = kb.toI32(kb.sub(to, from));
  Value none = kb.map(kb.iota(lanes), type, [&](ValueRange) { return kb.i32(-1); });
  Value places = kb.map(kb.iota(lanes), type, [&](ValueRange args) {
    return kb.selectf(kb.less(args[0], count), args[0], kb.i32(-1));
  });
  for (Value view : {views.entries, views.pages, views.seen})
    kb.scatter(none, places, view, {from});
}

} // namespace m3c::kernel
