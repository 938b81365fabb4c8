// The launch that multiplies pages with the rows that chose them.
#include "passes/kernel/families/attention/matrix/AttentionSteps.h"
#include "passes/kernel/families/attention/matrix/AttentionSums.h"
#include "passes/kernel/families/attention/outer/KvOuter.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

/// Rows of an operand of values: dims, and eight of ones.
constexpr int64_t ones = 8;

class PageProducts {
public:
  PageProducts(KernelBuilder &kb, const KvOuter &outer, const MatrixUnit &unit, PageLists &lists,
               Value query, Value pool, const PageMeans &means, Value firstRow)
      : kb(kb), m(kb, unit), cache(outer.cache), shape(outer.shape), together(outer.together),
        ahead(outer.ahead), lists(lists), query(query), pool(pool), means(means),
        firstRow(firstRow), scaleBits(outer.shape.scale * std::numbers::log2e) {}

  /// Tiles begin … end − 1, the last one first: rows see more keys of a page the later they are,
  /// and a page is brought with those that the rows at hand see.
  void emit(Value begin, Value end) {
    allocate();
    kb.when(kb.less(begin, end), [&] {
      Values state = {kb.i32(-1), kb.i32(0)};
      if (ahead)
        state.push_back(queryOf(ownEntry(kb.add(end, -1))));
      // A number and its end in registers, no more.
      Value one = kb.index(1), zero = kb.index(0);
      kb.forLoop(kb.sub(one, end), kb.sub(one, begin), 1, state, [&](Value i, ValueRange carried) {
        Value number = kb.sub(zero, i);
        return tile(number, kb.max(kb.add(number, -1), zero), carried);
      });
    });
  }

private:
  void allocate() {
    if (cache.paired()) {
      table = kb.alloc({256, 8}, kb.byteType());
      tile::CodeTableOp::create(kb.builder(), table);
    }
    Type code = kb.builder().getI16Type();
    keys = kb.alloc({2, m3::blockTokens, 64}, code);
    values = kb.alloc({2, shape.dims + ones, 64}, code);
    kb.barrier();
  }

  /// What the list says of a tile: the page of its entries and how many keys of that are needed, or
  /// `several` where they have several pages; of the warp's own entry its number, −1 where it has
  /// none, and how many keys its row sees.
  struct Tile {
    Value page, most, ownEntry, ownSeen;
  };
  static constexpr int64_t several = -2;

  Tile read(Value number) {
    Value place = lists.place(number), isOne = yes();
    Tile tile = {lists.page(place), lists.seen(place), {}, {}};
    for (int64_t j = 1; j < together; ++j) {
      Value at = kb.add(place, j), page = lists.page(at);
      tile.most = kb.max(tile.most, lists.seen(at));
      isOne = kb.both(isOne, kb.either(kb.equal(page, tile.page), kb.less(page, kb.i32(0))));
    }
    tile.most = kb.selectf(isOne, tile.most, kb.i32(several));
    Value mine = kb.add(place, kb.warpId());
    tile.ownSeen = lists.seen(mine);
    tile.ownEntry = lists.entry(mine);
    return tile;
  }
  Value ownEntry(Value number) { return lists.entry(kb.add(lists.place(number), kb.warpId())); }

  /// Entries of a tile have one block, so rows of one sequence have one page of it: nearly always
  /// all entries are of one page. Else each page has its turn. `state`: the page that stands in
  /// shared memory, how many of its keys; with `ahead` the warp's queries, for which those of the
  /// next tile come meanwhile.
  Values tile(Value number, Value nextNumber, ValueRange state) {
    place = lists.place(number);
    own = read(number);
    Value next = ahead ? ownEntry(nextNumber) : Value();
    Value isOne = kb.less(kb.i32(several), own.most);
    Value turns = kb.selectf(isOne, kb.index(1), kb.index(together));
    auto turn = [&](Value j, ValueRange carried) {
      Values page = kb.choose(
          isOne, [&] { return Values{own.page, own.most, yes()}; }, [&] { return turnOf(j); });
      Value after = own.ownEntry;
      if (ahead)
        after = kb.selectf(kb.equal(kb.add(j, 1), turns), next, after);
      return kb.choose(
          kb.both(page[2], kb.atLeast(page[0], kb.i32(0))),
          [&] { return work(page[0], page[1], after, carried); },
          [&] {
            Values same(carried.begin(), carried.end());
            if (ahead)
              same[2] = queryOf(after);
            return same;
          });
    };
    return kb.forLoop(kb.index(0), turns, 1, state, turn);
  }

  /// The page of entry j, how many of its keys entries of that page see, and whether no entry
  /// before has it.
  Values turnOf(Value j) {
    Value page = lists.page(kb.add(place, j));
    Values found = kb.forLoop(kb.index(0), kb.index(together), 1, {kb.i32(0), yes()},
                              [&](Value i, ValueRange carried) {
                                Value at = kb.add(place, i), other = lists.page(at);
                                Value seen = kb.max(carried[0], lists.seen(at));
                                Value isNew = kb.either(differ(other, page), kb.atLeast(i, j));
                                return Values{kb.selectf(kb.equal(other, page), seen, carried[0]),
                                              kb.both(carried[1], isNew)};
                              });
    return {page, found[0], found[1]};
  }

  Value yes() { return arith::ConstantOp::create(kb.builder(), kb.builder().getBoolAttr(true)); }
  Value differ(Value a, Value b) {
    return arith::CmpIOp::create(kb.builder(), arith::CmpIPredicate::ne, a, b);
  }
  Value asIndex(Value number) { return kb.toIndex(number); }

  /// `after`: the entry whose queries are wanted next.
  Values work(Value page, Value most, Value after, ValueRange state) {
    Value isThere = kb.both(kb.equal(state[0], page), kb.atLeast(state[1], most));
    Values now = kb.choose(
        isThere, [&] { return Values{state[0], state[1]}; },
        [&] {
          bring(page, most);
          return Values{page, most};
        });
    if (ahead)
      now.push_back(attend(page, state[2], after));
    else
      attend(page, queryOf(own.ownEntry), {});
    return now;
  }

  void bring(Value page, Value limit) {
    kb.barrier(); // nobody multiplies with the page before any more
    Value keySlot = kb.add(kb.mul(asIndex(page), cache.pageBytes),
                           kb.mul(kb.blockId(tile::Axis::Y), 2 * cache.slotBytes));
    share(keySlot, {}, keys);
    share(kb.add(keySlot, cache.slotBytes), asIndex(limit), values);
    kb.barrier();
  }

  void share(Value slot, Value limit, Value operand) {
    const int64_t tokens = m3::blockTokens, dims = shape.dims;
    const bool packed = cache.paired();
    Value codes =
        kb.reinterpret(pool, slot, kb.view({tokens, packed ? dims / 2 : dims}, kb.byteType()));
    Value scales;
    if (packed)
      scales = kb.reinterpret(pool, kb.add(slot, tokens * dims / 2),
                              kb.view({tokens * dims / 16}, kb.byteType()));
    tile::ShareSlotOp::create(kb.builder(), codes, scales, table, limit,
                              packed ? tile::Format::E2M1 : tile::Format::E4M3, operand,
                              StringAttr());
  }

  //===- A row in each warp
  Value queryOf(Value entry) {
    Value row = kb.add(asIndex(rowOf(kb.max(entry, kb.i32(0)))), firstRow);
    Value first =
        kb.add(kb.mul(row, shape.heads), kb.mul(kb.blockId(tile::Axis::Y), shape.group()));
    auto type = kb.fragment(16, shape.dims, kb.builder().getBF16Type(), tile::Layout::MmaA);
    return tile::LoadOp::create(kb.builder(), type, query, ValueRange{first, kb.index(0)},
                                kb.add(first, shape.group()), ArrayRef<int64_t>{16, shape.dims});
  }

  Value rowOf(Value entry) {
    return arith::DivSIOp::create(kb.builder(), entry, kb.i32(shape.selected));
  }

  /// Gives the queries of `after`, which are on their way while the rest of the work is done.
  Value attend(Value page, Value q, Value after) {
    Value scores = product(q, keys, m3::blockTokens);
    Value next = after ? queryOf(after) : Value();
    scores = masked(scores);
    Value largest = m.rowsMax(scores);
    Value weights = weightsOf(scores, largest);
    auto left = kb.fragment(16, m3::blockTokens, kb.builder().getF16Type(), tile::Layout::MmaA);
    Value p = tile::ToOperandOp::create(kb.builder(), left, weights);
    Value sums = product(p, values, shape.dims + ones);
    Value sum = m.rowsMax(columns(sums, shape.dims, ones)); // all eight are alike
    Value mean = kb.map({columns(sums, 0, shape.dims), inverse(sum)}, m.acc(shape.dims),
                        [&](ValueRange args) { return kb.mulf(args[0], args[1]); });
    Value isOfPage = kb.choose(
        kb.less(kb.i32(several), own.most),
        [&] { return Values{kb.atLeast(own.ownEntry, kb.i32(0))}; },
        [&] { return Values{kb.equal(lists.page(kb.add(place, kb.warpId())), page)}; })[0];
    kb.when(isOfPage, [&] {
      // Choices of a row and KV head stand side by side, as do its slots.
      Value slot = asIndex(own.ownEntry), kvHead = kb.blockId(tile::Axis::Y);
      if (shape.kvHeads > 1) {
        Value row = kb.div(slot, shape.selected), choice = kb.rem(slot, shape.selected);
        slot = kb.add(kb.mul(kb.add(kb.mul(row, shape.kvHeads), kvHead), shape.selected), choice);
      }
      store(slot, mean, largest, sum);
    });
    return next;
  }

  Value product(Value a, Value right, int64_t columns) {
    Value none = m.fill(0, m.acc(columns));
    Value sums =
        tile::MmaSharedOp::create(kb.builder(), none.getType(), a, right, none, StringAttr());
    return tile::MmaWaitOp::create(kb.builder(), sums.getType(), sums, 0, StringAttr());
  }
  Value columns(Value acc, int64_t first, int64_t count) {
    return tile::SliceOp::create(kb.builder(), m.acc(count), acc, 0, first);
  }

  /// Scores of the keys that the row sees; nearly all pages are seen whole.
  Value masked(Value scores) {
    auto type = cast<tile::TileType>(scores.getType());
    return kb.choose(
        kb.less(own.ownSeen, kb.i32(m3::blockTokens)),
        [&] {
          Value token = m.iota(m.columns(m3::blockTokens, kb.i32Type()));
          return Values{kb.map({scores, token}, type, [&](ValueRange args) {
            return kb.selectf(kb.less(args[1], own.ownSeen), args[0], kb.f32(noScore));
          })};
        },
        [&] { return Values{scores}; })[0];
  }

  Value weightsOf(Value scores, Value largest) {
    Value shift = kb.map(largest, m.rows(),
                         [&](ValueRange args) { return kb.mulf(args[0], kb.f32(-scaleBits)); });
    return kb.map({scores, shift}, cast<tile::TileType>(scores.getType()), [&](ValueRange args) {
      return kb.exp2f(kb.fmaf(args[0], kb.f32(scaleBits), args[1]));
    });
  }
  Value inverse(Value sum) {
    return kb.map(sum, m.rows(), [&](ValueRange args) { return kb.divf(kb.f32(1), args[0]); });
  }

  void store(Value slot, Value mean, Value largest, Value sum) {
    auto type = kb.fragment(16, shape.dims, kb.builder().getF16Type(), tile::Layout::MmaA);
    Value rounded = tile::ToOperandOp::create(kb.builder(), type, mean);
    auto zero = [&] { return kb.index(0); };
    ArrayRef<int64_t> box = cast<tile::ViewType>(means.values.getType()).getShape();
    kb.store(rounded, means.values, {slot, zero(), zero(), zero()}, {1, box[1], box[2], box[3]});
    kb.store(largest, means.rows, {slot, kb.index(0), zero()}, {1, 1, 16});
    kb.store(sum, means.rows, {slot, kb.index(1), zero()}, {1, 1, 16});
  }

  KernelBuilder &kb;
  MatrixTiles m;
  const CachePages &cache;
  const AttentionShape &shape;
  const int64_t together;
  const bool ahead;
  PageLists &lists;
  Value query, pool;
  PageMeans means;
  Value firstRow;
  const double scaleBits; ///< of scores, to powers of two
  Value table, keys, values;
  Tile own;    ///< the one at hand
  Value place; ///< of its entries
};

} // namespace

void emitPageProducts(KernelBuilder &kb, const KvOuter &outer, const MatrixUnit &unit,
                      PageLists &lists, Value query, Value pool, const PageMeans &means,
                      Value firstRow, int64_t parts) {
  Value part = kb.blockId(tile::Axis::X), tiles = lists.tiles();
  Value begin = kb.div(kb.mul(tiles, part), parts);
  Value end = kb.div(kb.mul(tiles, kb.add(part, 1)), parts);
  PageProducts(kb, outer, unit, lists, query, pool, means, firstRow).emit(begin, end);
}

} // namespace m3c::kernel
