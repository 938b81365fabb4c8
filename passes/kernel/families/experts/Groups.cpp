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
  Value active = kb.add(kb.toIndex(last), kb.index(1));
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

/// Entries from … to − 1, looked at `lanes` at a time.
struct Groups::Share {
  static constexpr int64_t lanes = 128;

  Share(KernelBuilder &kb, Value ids, Value entries)
      : kb(kb), ids(ids), row(kb.tile(1, lanes, kb.i32Type())), number(kb.iota(lanes)) {
    Value size = kb.mul(kb.ceilDiv(kb.ceilDiv(entries, kb.warps()), lanes), lanes);
    from = kb.min(kb.mul(size, kb.warpId()), entries);
    to = kb.min(kb.add(from, size), entries);
  }

  /// Calls `body` with the ids of the entries from i on, of which the first `left` count.
  Values each(ValueRange start,
              function_ref<Values(Value i, Value idsOfTile, Value left, ValueRange carried)> body) {
    return kb.forLoop(from, to, lanes, start, [&](Value i, ValueRange carried) {
      Value left = kb.toI32(kb.sub(to, i));
      Value places = kb.map(
          number, row, [&](ValueRange args) { return kb.min(args[0], kb.sub(left, kb.i32(1))); });
      return body(i, kb.gather(ids, i, places), left, carried);
    });
  }
  /// Of a tile's ids those that `is` holds for, as 1, else 0.
  Value where(Value tileIds, Value left, function_ref<Value(Value id)> is) {
    return kb.map({tileIds, number}, row, [&](ValueRange args) {
      Value holds = kb.both(is(args[0]), kb.less(args[1], left));
      return kb.selectf(holds, kb.i32(1), kb.i32(0));
    });
  }
  Value sum(Value a, Value b) {
    return kb.map({a, b}, row, [&](ValueRange args) { return kb.add(args[0], args[1]); });
  }
  Value total(Value tile) { return kb.extract(kb.reduce(tile::ReduceKind::Add, tile), 0, 0); }

  KernelBuilder &kb;
  Value ids;
  tile::TileType row;
  Value number, from, to;
};

void Groups::emitExpert(Value ids, Value entries, Value expert,
                        function_ref<void(Value begin, Value end)> body) {
  Share share(kb, ids, entries);
  auto indexOf = [&](Value number) -> Value { return kb.toIndex(number); };
  Value own = kb.toI32(expert), zero = kb.index(0), warp = kb.warpId();
  auto isOwn = [&](Value id) { return kb.equal(id, own); };
  auto isEarlier = [&](Value id) { return kb.less(id, own); };

  // Entries of earlier experts come first, of its own those of earlier warps.
  Value none = kb.fill(kb.i32(0), 1, Share::lanes);
  Values counted = share.each({none, none}, [&](Value, Value tile, Value left, ValueRange carried) {
    return Values{share.sum(carried[0], share.where(tile, left, isEarlier)),
                  share.sum(carried[1], share.where(tile, left, isOwn))};
  });
  Value counts = kb.alloc({kb.warps(), 2}, kb.i32Type());
  for (int64_t i = 0; i < 2; ++i)
    kb.storeScalar(indexOf(share.total(counted[size_t(i)])), counts, {warp, kb.index(i)});
  kb.barrier();
  Value begin = zero, count = zero, before = zero;
  for (int64_t w = 0; w < kb.warps(); ++w) {
    Value owned = kb.loadIndex(counts, {kb.index(w), kb.index(1)});
    begin = kb.add(begin, kb.loadIndex(counts, {kb.index(w), zero}));
    count = kb.add(count, owned);
    before = kb.add(before, kb.selectf(kb.less(kb.index(w), warp), owned, zero));
  }

  share.each(kb.toI32(kb.add(begin, before)), [&](Value i, Value tile, Value left,
                                                  ValueRange carried) {
    Value owned = share.where(tile, left, isOwn);
    Value places = kb.map({kb.scan(owned), owned}, share.row, [&](ValueRange args) {
      return kb.selectf(kb.less(kb.i32(0), args[1]), kb.add(args[0], carried[0]), kb.i32(-1));
    });
    Value first = kb.toI32(i);
    Value numbers =
        kb.map(share.number, share.row, [&](ValueRange args) { return kb.add(args[0], first); });
    kb.scatter(numbers, places, list, {kb.index(firstEntry())});
    return Values{kb.add(carried[0], share.total(owned))};
  });
  kb.when(kb.equal(warp, zero), [&] {
    kb.storeScalar(expert, list, {kb.add(expert, 1)});
    kb.storeScalar(begin, list, {kb.add(expert, 1 + experts)});
    kb.when(kb.equal(expert, kb.index(experts - 1)), [&] {
      kb.storeScalar(kb.index(experts), list, {zero});
      kb.storeScalar(entries, list, {kb.index(1 + 2 * experts)});
    });
    body(begin, kb.add(begin, count));
  });
}

bool listsExpertsApart(StepLowering &step, int64_t experts, int64_t topK) {
  bool haveEntries = step.rows * topK >= experts; // each expert is a work item of the products
  return haveEntries && isOn(step.schedule("route", {{"experts", experts}}), "list_apart");
}

} // namespace m3c::kernel
