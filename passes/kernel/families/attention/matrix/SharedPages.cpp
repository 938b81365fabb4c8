#include "passes/kernel/families/attention/matrix/SharedPages.h"

using namespace mlir;

namespace m3c::kernel {

/// Entries that a warp looks at together, one in a lane.
static constexpr int64_t lanes = 32;

static int64_t chunksOf(int64_t selected, int64_t tileRows) {
  return llvm::divideCeil(selected * tileRows, lanes);
}

SharedPages::SharedPages(KernelBuilder &kb, BatchRows &batch, const AttentionShape &shape,
                         int64_t tileRows)
    : kb(kb), batch(batch), shape(shape), tileRows(tileRows),
      chunks(chunksOf(shape.selected, tileRows)) {
  auto list = [&](ArrayRef<int64_t> sizes) { return kb.alloc(sizes, kb.i32Type()); };
  chosen = list({chunks * lanes});
  limits = list({chunks * lanes});
  firsts = list({chunks * lanes});
  places = list({chunks * lanes});
  counts = list({chunks});
  pages = list({chunks * lanes});
  seenKeys = list({chunks * lanes * tileRows});
}

tile::TileType SharedPages::numbers() { return kb.tile(1, lanes, kb.i32Type()); }

Value SharedPages::lanewise(ValueRange inputs, function_ref<Value(ValueRange)> body) {
  return kb.map(inputs, numbers(), body);
}

Value SharedPages::load(Value list, Value chunk) {
  return kb.load(list, {kb.mul(chunk, lanes)}, {lanes}, 1, lanes);
}
void SharedPages::store(Value tile, Value list, Value chunk) {
  kb.store(tile, list, {kb.mul(chunk, lanes)}, {lanes});
}

Value SharedPages::entries(Value chunk) {
  Value first = kb.toI32(kb.mul(chunk, lanes));
  return lanewise(kb.iota(lanes), [&](ValueRange args) { return kb.add(args[0], first); });
}

void SharedPages::list(Value selection, Value firstRow, Value kvHead) {
  auto eachChunk = [&](function_ref<void(Value)> body) {
    kb.eachByWarp(kb.index(0), kb.index(chunks), body);
    kb.barrier();
  };
  kb.eachByWarp(kb.index(0), kb.index(chunks * tileRows),
                [&](Value part) { store(kb.fill(kb.i32(0), 1, lanes), seenKeys, part); });
  eachChunk([&](Value chunk) { readChosen(selection, firstRow, kvHead, chunk); });
  eachChunk([&](Value chunk) { findFirst(chunk); });
  eachChunk([&](Value chunk) { place(chunk); });
  total = kb.index(0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    total = kb.add(total, kb.loadIndex(counts, {kb.index(chunk)}));
  eachChunk([&](Value chunk) { noteSeen(chunk); });
}

/// Entries of no row, or for which the row chose nothing, have pages of their own that are none.
void SharedPages::readChosen(Value selection, Value firstRow, Value kvHead, Value chunk) {
  auto &b = kb.builder();
  auto times = [&](Value x, Value y) { return Value(arith::MulIOp::create(b, x, y)); };
  Value entry = entries(chunk), zero = kb.i32(0);
  Value first = kb.toI32(firstRow), last = kb.toI32(kb.add(batch.rows, -1));
  Value selected = kb.i32(shape.selected);
  auto rowOf = [&](Value entry) {
    return kb.add(first, Value(arith::DivSIOp::create(b, entry, selected)));
  };
  Value row = lanewise(entry, [&](ValueRange args) { return kb.min(rowOf(args[0]), last); });
  Value head = kb.toI32(kvHead);
  Value at = lanewise({entry, row}, [&](ValueRange args) {
    Value list = kb.add(times(args[1], kb.i32(shape.kvHeads)), head);
    return kb.add(times(list, selected), Value(arith::RemSIOp::create(b, args[0], selected)));
  });
  Value listed = kb.gather(selection, kb.index(0), at);
  Value block = lanewise({listed, entry}, [&](ValueRange args) {
    Value inside = kb.both(kb.less(args[1], kb.i32(tileRows * shape.selected)),
                           kb.atLeast(last, rowOf(args[1])));
    return kb.selectf(inside, args[0], kb.i32(-1));
  });
  Value sequence = kb.gather(batch.sequences, kb.index(0), row);
  Value position = kb.gather(batch.positions, kb.index(0), row);
  Value length = kb.toI32(batch.tableLength);
  Value inTable = lanewise({sequence, block}, [&](ValueRange args) {
    return kb.add(times(args[0], length), kb.max(args[1], zero));
  });
  Value page = kb.gather(batch.table, kb.index(0), inTable);
  store(lanewise({page, block, entry},
                 [&](ValueRange args) {
                   Value none = kb.sub(kb.i32(-1), args[2]);
                   return kb.selectf(kb.atLeast(args[1], zero), args[0], none);
                 }),
        chosen, chunk);
  store(lanewise({position, block},
                 [&](ValueRange args) {
                   Value before = times(args[1], kb.i32(m3::blockTokens));
                   Value keys = kb.sub(kb.add(args[0], kb.i32(1)), before);
                   return kb.selectf(kb.atLeast(args[1], zero),
                                     kb.min(keys, kb.i32(m3::blockTokens)), zero);
                 }),
        limits, chunk);
}

/// Entries of one row have different pages, so only those of earlier rows are compared.
void SharedPages::findFirst(Value chunk) {
  Value entry = entries(chunk), page = load(chosen, chunk);
  Value newest = kb.add(kb.mul(chunk, lanes), lanes - 1);
  Value earlier = kb.mul(kb.div(newest, shape.selected), shape.selected);
  Value first = kb.forLoop(
      kb.index(0), kb.min(earlier, kb.index(chunks * lanes)), 1, entry,
      [&](Value i, ValueRange carried) {
        Value other = kb.loadScalar(chosen, {i}), number = kb.toI32(i);
        return Values{lanewise({carried[0], page}, [&](ValueRange args) {
          Value same = kb.both(kb.equal(other, args[1]), kb.less(number, args[0]));
          return kb.selectf(same, number, args[0]);
        })};
      },
      /*unroll=*/true)[0];
  Value begins = lanewise({first, entry, page}, [&](ValueRange args) {
    Value holds = kb.both(kb.equal(args[0], args[1]), kb.atLeast(args[2], kb.i32(0)));
    return kb.selectf(holds, kb.i32(1), kb.i32(0));
  });
  store(first, firsts, chunk);
  store(lanewise({begins, kb.scan(begins)},
                 [&](ValueRange args) {
                   return kb.selectf(kb.less(kb.i32(0), args[0]), args[1], kb.i32(-1));
                 }),
        places, chunk);
  kb.storeScalar(kb.extract(kb.reduce(tile::ReduceKind::Add, begins), 0, 0), counts, {chunk});
}

void SharedPages::place(Value chunk) {
  Value before = kb.index(0);
  for (int64_t other = 0; other + 1 < chunks; ++other) {
    Value more = kb.loadIndex(counts, {kb.index(other)});
    before = kb.add(before, kb.selectf(kb.less(kb.index(other), chunk), more, kb.index(0)));
  }
  Value base = kb.toI32(before);
  Value place = lanewise(load(places, chunk), [&](ValueRange args) {
    return kb.selectf(kb.less(args[0], kb.i32(0)), args[0], kb.add(args[0], base));
  });
  store(place, places, chunk);
  kb.scatter(load(chosen, chunk), place, pages, {kb.index(0)});
}

void SharedPages::noteSeen(Value chunk) {
  auto &b = kb.builder();
  Value place = kb.gather(places, kb.index(0), load(firsts, chunk)), seen = load(limits, chunk);
  Value at = lanewise({place, seen, entries(chunk)}, [&](ValueRange args) {
    Value row = arith::DivSIOp::create(b, args[2], kb.i32(shape.selected));
    Value inRow = arith::MulIOp::create(b, args[0], kb.i32(tileRows));
    return kb.selectf(kb.less(kb.i32(0), args[1]), kb.add(inRow, row), kb.i32(-1));
  });
  kb.scatter(seen, at, seenKeys, {kb.index(0)});
}

} // namespace m3c::kernel
