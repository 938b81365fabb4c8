#include "passes/kernel/families/experts/Groups.h"

using namespace mlir;

namespace m3c::kernel {

/// Entries from … to − 1 of each expert, to the warp's row of `counts`.
void Groups::countEntries(Value ids, Value from, Value to, Value counts) {
  Value warp = kb.warpId();
  kb.store(kb.fill(kb.i32(0), 1, experts), counts, {warp, kb.index(0)}, {1, experts});
  kb.forLoop(from, to, 1, [&](Value i) {
    Value expert = kb.loadIndex(ids, {i}), count = kb.loadIndex(counts, {warp, expert});
    kb.storeScalar(kb.add(count, 1), counts, {warp, expert});
  });
}

/// The experts that have entries, in the order of their ids.
void Groups::writeExperts(Value counts, Value begins, Value entries) {
  tile::TileType row = kb.tile(1, experts, kb.i32Type());
  Value isActive = kb.map(counts, row, [&](ValueRange args) { return kb.min(args[0], kb.i32(1)); });
  Value places = kb.map({kb.scan(isActive), isActive}, row, [&](ValueRange args) {
    return kb.selectf(kb.less(kb.i32(0), args[1]), args[0], kb.i32(-1));
  });
  kb.scatter(kb.iota(experts), places, list, {kb.index(1)});
  kb.scatter(begins, places, list, {kb.index(1 + experts)});
  Value last = kb.extract(kb.reduce(tile::ReduceKind::Max, places), 0, 0);
  Value active = kb.add(arith::IndexCastOp::create(kb.builder(), kb.builder().getIndexType(), last),
                        kb.index(1));
  kb.storeScalar(active, list, {kb.index(0)});
  kb.storeScalar(entries, list, {kb.add(active, 1 + experts)});
}

/// Entries from … to − 1; `next` [experts] has the place of each expert's next.
void Groups::writeEntries(Value ids, Value from, Value to, Value next) {
  Value warp = kb.warpId();
  kb.forLoop(from, to, 1, [&](Value i) {
    Value expert = kb.loadIndex(ids, {i}), place = kb.loadIndex(next, {warp, expert});
    kb.storeScalar(i, list, {kb.add(place, firstEntry())});
    kb.storeScalar(kb.add(place, 1), next, {warp, expert});
  });
}

void Groups::emit(Value ids, Value entries) {
  int64_t warps = kb.warps();
  tile::TileType row = kb.tile(1, experts, kb.i32Type());
  Value zero = kb.index(0), warp = kb.warpId();
  Value share = kb.ceilDiv(entries, warps), from = kb.min(kb.mul(share, warp), entries);
  Value to = kb.min(kb.add(from, share), entries);
  Value counts = kb.alloc({warps, experts}, kb.i32Type());
  Value next = kb.alloc({warps, experts}, kb.i32Type());
  countEntries(ids, from, to, counts);
  kb.barrier();

  // Of the entries of an expert those of earlier warps come first.
  Value total, before;
  for (int64_t w = 0; w < warps; ++w) {
    Value one = kb.load(counts, {kb.index(w), zero}, {1, experts}, 1, experts);
    Value isEarlier = kb.less(kb.index(w), warp);
    Value earlier = kb.map(
        one, row, [&](ValueRange args) { return kb.selectf(isEarlier, args[0], kb.i32(0)); });
    auto sum = [&](Value a, Value b) {
      return kb.map({a, b}, row, [&](ValueRange args) { return kb.add(args[0], args[1]); });
    };
    total = total ? sum(total, one) : one;
    before = before ? sum(before, earlier) : earlier;
  }
  Value begins = kb.scan(total);
  Value first =
      kb.map({begins, before}, row, [&](ValueRange args) { return kb.add(args[0], args[1]); });
  kb.store(first, next, {warp, zero}, {1, experts});
  kb.when(kb.equal(warp, zero), [&] { writeExperts(total, begins, entries); });
  writeEntries(ids, from, to, next);
}

} // namespace m3c::kernel
