#include "passes/kernel/families/selection/SelectWarps.h"

using namespace mlir;

namespace m3c::kernel {

Value SelectionKeys::of(Value first, int64_t rows, int64_t lanes) const {
  auto &b = kb.builder();
  auto constant = [&](int64_t value) { return kb.i32(value); };
  Value values = kb.load(scores, {kb.add(base, first)}, {rows * lanes}, rows, lanes);
  Value column = kb.iota(lanes), count = kb.toI32(kb.sub(blocks, first)), start = kb.toI32(first);
  Values places = {column};
  for (int64_t r = 1; r < rows; ++r)
    places.push_back(kb.map(column, kb.tile(1, lanes, kb.i32Type()),
                            [&](ValueRange args) { return kb.add(args[0], constant(r * lanes)); }));
  Value place = rows == 1 ? column : kb.stack(places);
  return kb.map({values, place}, kb.tile(rows, lanes, kb.i32Type()), [&](ValueRange args) {
    // Adding zero makes −0 and 0 equal.
    Value bits = arith::BitcastOp::create(b, kb.i32Type(), kb.addf(args[0], kb.f32(0.0)));
    Value flip = arith::AndIOp::create(b, arith::ShRSIOp::create(b, bits, constant(31)),
                                       constant(INT32_MAX));
    Value key =
        kb.selectf(kb.isNan(args[0]), constant(notANumber), arith::XOrIOp::create(b, bits, flip));
    Value newest = kb.atLeast(args[1], kb.sub(count, constant(local)));
    Value initial = kb.less(args[1], kb.sub(constant(init), start));
    key = kb.selectf(kb.either(newest, initial), constant(forced), key);
    return kb.selectf(kb.less(args[1], count), key, constant(none));
  });
}

namespace {

constexpr int64_t lanes = 32;
constexpr int64_t chunk = selectChunk, chunkRows = chunk / lanes;
/// Candidates that the list has room for.
constexpr int64_t room = 2048;

class SelectByWarps {
public:
  SelectByWarps(const SelectionKeys &keys, int64_t k)
      : kb(keys.kb), keys(keys), k(k), warps(kb.warps()) {}

  void emit(Value selection, Value at, function_ref<void()> whole) {
    best = kb.alloc({warps, lanes}, kb.i32Type());
    lanesBest = kb.alloc({warps, lanes}, kb.i32Type());
    counts = kb.alloc({2, warps}, kb.i32Type());
    listKeys = kb.alloc({room}, kb.i32Type());
    listIds = kb.alloc({room}, kb.i32Type());
    winners = kb.alloc({lanes}, kb.i32Type());
    Value warp = kb.warpId(), blocks = keys.blocks;
    Value slice = kb.mul(kb.ceilDiv(blocks, warps * chunk), chunk);
    begin = kb.mul(warp, slice);
    end = kb.min(kb.add(begin, slice), blocks);
    Value bound = findBound(warp);
    Place place = countCandidates(warp, bound);
    kb.when(
        kb.less(kb.index(room), place.total), [&] { kb.when(kb.equal(warp, kb.index(0)), whole); },
        [&] {
          list(bound, place);
          kb.barrier();
          rank(warp, place.total);
          kb.barrier();
          kb.when(kb.equal(warp, kb.index(0)), [&] { write(place.total, selection, at); });
        });
  }

private:
  tile::TileType numbers(int64_t rows = 1) { return kb.tile(rows, lanes, kb.i32Type()); }
  tile::TileType conditions(int64_t rows = 1) {
    return kb.tile(rows, lanes, kb.builder().getI1Type());
  }
  /// Numbers of lanes; those from `count` on repeat the last.
  Value upTo(Value count) {
    Value last = kb.toI32(kb.add(count, -1));
    return kb.map(kb.iota(lanes), numbers(),
                  [&](ValueRange args) { return kb.min(args[0], last); });
  }
  /// One more where the condition holds.
  Value counted(Value count, Value holds) {
    return kb.add(count, kb.selectf(holds, kb.i32(1), kb.i32(0)));
  }
  Value maxOf(Value a, Value b) {
    return kb.map({a, b}, numbers(), [&](ValueRange args) { return kb.max(args[0], args[1]); });
  }

  /// No more than the k-th largest integer; `none` if there are fewer than k blocks.
  Value findBound(Value warp) {
    Value none = kb.i32(SelectionKeys::none);
    Value mine = kb.forLoop(begin, end, chunk, kb.fill(none, 1, lanes),
                            [&](Value first, ValueRange carried) {
                              Value key = keys.of(first, chunkRows, lanes), most = carried[0];
                              for (int64_t r = 0; r < chunkRows; ++r)
                                most = maxOf(most, kb.slice(key, r, 0, 1, lanes));
                              return Values{most};
                            })[0];
    kb.store(mine, best, {warp, kb.index(0)}, {1, lanes});
    kb.barrier();
    Value all = kb.load(best, {kb.index(0), kb.index(0)}, {warps, lanes}, warps, lanes);
    Value most = kb.slice(all, 0, 0, 1, lanes);
    for (int64_t w = 1; w < warps; ++w)
      most = maxOf(most, kb.slice(all, w, 0, 1, lanes));
    // The k-th largest of the lanes' largest: of every warp in a row of its own.
    kb.store(most, lanesBest, {warp, kb.index(0)}, {1, lanes});
    Value before = kb.fill(kb.i32(0), 1, lanes);
    for (int64_t i = 0; i < lanes; ++i) {
      Value other = kb.loadScalar(lanesBest, {warp, kb.index(i)});
      before = kb.map({before, most, kb.iota(lanes)}, numbers(), [&](ValueRange args) {
        Value first = kb.both(kb.equal(other, args[1]), kb.less(kb.i32(i), args[2]));
        return counted(args[0], kb.either(kb.less(args[1], other), first));
      });
    }
    Value chosen = kb.map({before, most}, numbers(), [&](ValueRange args) {
      return kb.selectf(kb.equal(args[0], kb.i32(k - 1)), args[1], none);
    });
    return kb.extract(kb.reduce(tile::ReduceKind::Max, chosen), 0, 0);
  }

  Value above(Value key, Value bound) {
    return kb.map(key, conditions(chunkRows),
                  [&](ValueRange args) { return kb.less(bound, args[0]); });
  }
  Value equal(Value key, Value bound) {
    return kb.map(key, conditions(chunkRows), [&](ValueRange args) {
      return kb.both(kb.equal(args[0], bound), kb.less(kb.i32(SelectionKeys::none), args[0]));
    });
  }
  Value count(Value takes) {
    return tile::CountOp::create(kb.builder(), kb.builder().getIndexType(), takes);
  }

  /// Where this warp writes, and how many candidates all have.
  struct Place {
    Value above, equal, equals, total;
  };

  Place countCandidates(Value warp, Value bound) {
    Values start = {kb.index(0), kb.index(0)};
    Values mine = kb.forLoop(begin, end, chunk, start, [&](Value first, ValueRange carried) {
      Value key = keys.of(first, chunkRows, lanes);
      return Values{kb.add(carried[0], count(above(key, bound))),
                    kb.add(carried[1], count(equal(key, bound)))};
    });
    Value equals = kb.min(mine[1], kb.index(k));
    kb.storeScalar(mine[0], counts, {kb.index(0), warp});
    kb.storeScalar(equals, counts, {kb.index(1), warp});
    kb.barrier();
    SmallVector<Value> higher, same;
    Value above = kb.index(0);
    for (int64_t w = 0; w < warps; ++w) {
      higher.push_back(kb.loadIndex(counts, {kb.index(0), kb.index(w)}));
      same.push_back(kb.loadIndex(counts, {kb.index(1), kb.index(w)}));
      above = kb.add(above, higher.back());
    }
    // Of those that equal the bound the first blocks win, as many as the others leave room for.
    Value open = kb.sub(kb.index(k), kb.min(above, kb.index(k)));
    Place place{kb.index(0), {}, kb.index(0), above};
    for (int64_t w = 0; w < warps; ++w) {
      Value taken = kb.min(same[size_t(w)], open), both = kb.add(higher[size_t(w)], taken);
      place.above = kb.add(place.above, kb.selectf(kb.less(kb.index(w), warp), both, kb.index(0)));
      place.equals = kb.selectf(kb.equal(kb.index(w), warp), taken, place.equals);
      place.total = kb.add(place.total, taken);
      open = kb.sub(open, taken);
    }
    place.equal = kb.add(place.above, mine[0]);
    return place;
  }

  /// Of a warp first what exceeds the bound, then what equals it: equal integers are in the order
  /// of their blocks.
  void list(Value bound, const Place &place) {
    Values start = {place.above, place.equal, place.equals};
    kb.forLoop(begin, end, chunk, start, [&](Value first, ValueRange carried) {
      Value key = keys.of(first, chunkRows, lanes), from = kb.toI32(first);
      Values rows;
      for (int64_t r = 0; r < chunkRows; ++r)
        rows.push_back(kb.map(kb.iota(lanes), numbers(), [&](ValueRange args) {
          return kb.add(kb.add(args[0], from), kb.i32(r * lanes));
        }));
      Value ids = kb.stack(rows), higher = above(key, bound), same = equal(key, bound);
      Value all = kb.index(chunk);
      auto put = [&](Value takes, Value at, Value limit) {
        auto &b = kb.builder();
        tile::CompactOp::create(b, key, listKeys, ValueRange{at}, takes, limit);
        tile::CompactOp::create(b, ids, listIds, ValueRange{at}, takes, limit);
      };
      put(higher, carried[0], all);
      put(same, carried[1], carried[2]);
      Value equals = kb.min(count(same), carried[2]);
      return Values{kb.add(carried[0], count(higher)), kb.add(carried[1], equals),
                    kb.sub(carried[2], equals)};
    });
  }

  /// A lane for each candidate: how many come before it; the first k are winners.
  void rank(Value warp, Value total) {
    kb.forLoop(kb.mul(warp, lanes), total, warps * lanes, [&](Value first) {
      Value inside = upTo(kb.sub(total, first));
      Value key = kb.gather(listKeys, first, inside), id = kb.gather(listIds, first, inside);
      Value from = kb.toI32(first), all = kb.toI32(total);
      Value place =
          kb.map(kb.iota(lanes), numbers(), [&](ValueRange args) { return kb.add(args[0], from); });
      Value zero = kb.fill(kb.i32(0), 1, lanes);
      Value before = kb.forLoop(
          kb.index(0), total, 1, zero,
          [&](Value i, ValueRange carried) {
            Value other = kb.loadScalar(listKeys, {i}), at = kb.toI32(i);
            return Values{kb.map({carried[0], key, place}, numbers(), [&](ValueRange args) {
              Value first = kb.both(kb.equal(other, args[1]), kb.less(at, args[2]));
              Value comes = kb.either(kb.less(args[1], other), first);
              return counted(args[0], comes);
            })};
          },
          /*unroll=*/true)[0];
      Value places = kb.map({before, place}, numbers(), [&](ValueRange args) {
        Value wins = kb.both(kb.less(args[0], kb.i32(k)), kb.less(args[1], all));
        return kb.selectf(wins, args[0], kb.i32(-1));
      });
      kb.scatter(id, places, winners, {kb.index(0)});
    });
  }

  /// The winners' ids in ascending order, then −1.
  void write(Value total, Value selection, Value at) {
    Value chosen = kb.min(total, kb.index(k)), found = kb.toI32(chosen);
    Value id = kb.gather(winners, kb.index(0), upTo(chosen));
    Value lane = kb.iota(lanes), before = kb.fill(kb.i32(0), 1, lanes);
    for (int64_t i = 0; i < k; ++i) {
      Value other = kb.loadScalar(winners, {kb.min(kb.index(i), kb.add(chosen, -1))});
      before = kb.map({before, id}, numbers(), [&](ValueRange args) {
        Value lower = kb.both(kb.less(other, args[1]), kb.less(kb.i32(i), found));
        return counted(args[0], lower);
      });
    }
    Value place = kb.map({before, lane}, numbers(), [&](ValueRange args) {
      Value at = kb.selectf(kb.less(args[1], found), args[0], args[1]);
      return kb.selectf(kb.less(args[1], kb.i32(k)), at, kb.i32(-1));
    });
    Value value = kb.map({id, lane}, numbers(), [&](ValueRange args) {
      return kb.selectf(kb.less(args[1], found), args[0], kb.i32(-1));
    });
    kb.scatter(value, place, selection, {at});
  }

  KernelBuilder &kb;
  const SelectionKeys &keys;
  const int64_t k, warps;
  Value best, lanesBest, counts, listKeys, listIds, winners, begin, end;
};

} // namespace

void emitSelectByWarps(const SelectionKeys &keys, int64_t k, Value selection, Value at,
                       function_ref<void()> whole) {
  SelectByWarps(keys, k).emit(selection, at, whole);
}

} // namespace m3c::kernel
