#include "passes/kernel/families/selection/SelectBlocks.h"

#include "passes/kernel/families/cache/CachePages.h"
#include "passes/kernel/families/selection/SelectWarps.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

/// Parameters: batch rows, scores, selection [rows, heads, k]. Work item: one row and head.
///
/// Scores become integers of the same order (NaN below all). One pass over the blocks keeps the k
/// largest in a sorted list; a block is looked at again only if its integer exceeds the k-th. A
/// second pass writes the ids above the k-th, and of those equal to it the first ones.
class SelectKernel {
public:
  SelectKernel(KernelBuilder &kb, const IndexShape &shape, bool byWarps)
      : kb(kb), shape(shape), byWarps(byWarps), padded((shape.k + lanes - 1) / lanes * lanes),
        batch(kb), scores(kb.parameter(4)), selection(kb.parameter(5)),
        keys{kb, scores, {}, {}, shape.init, shape.local} {}

  void emit() {
    row = kb.blockId(tile::Axis::X);
    head = kb.blockId(tile::Axis::Y);
    kb.when(kb.less(row, batch.rows), [&] {
      keys.base = kb.mul(kb.add(kb.mul(row, shape.heads), head), batch.tableLength);
      blocks = keys.blocks = kb.add(kb.div(batch.position(row), m3::blockTokens), 1);
      at = kb.mul(kb.add(kb.mul(row, shape.heads), head), shape.k);
      if (byWarps)
        return emitSelectByWarps(keys, shape.k, selection, at, [&] { byOneWarp(); });
      byOneWarp();
    });
  }

private:
  static constexpr int64_t lanes = 16;
  static constexpr int64_t none = SelectionKeys::none, forced = SelectionKeys::forced;

  Value constant(int64_t value) { return kb.i32(value); }

  void byOneWarp() {
    // list[0] is above everything, list[1 … k] the largest so far, descending.
    list = kb.alloc({padded + lanes}, kb.i32Type());
    group = kb.alloc({lanes}, kb.i32Type());
    writeIds(findThreshold());
  }

  Value keysOf(Value first) { return keys.of(first, 1, lanes); }

  /// The k-th largest integer, `none` if there are fewer blocks.
  Value findThreshold() {
    kb.storeScalar(constant(forced), list, {kb.index(0)});
    for (int64_t i = 0; i < padded; i += lanes)
      kb.store(kb.fill(constant(none), 1, lanes), list, {kb.index(i + 1)}, {lanes});
    return kb.forLoop(kb.index(0), blocks, lanes, constant(none),
                      [&](Value first, ValueRange carried) {
                        Value keys = keysOf(first);
                        Value top = kb.extract(kb.reduce(tile::ReduceKind::Max, keys), 0, 0);
                        return kb.choose(
                            kb.less(carried[0], top), [&] { return insert(keys, carried[0]); },
                            [&] { return Values{carried[0]}; });
                      })[0];
  }

  /// Inserts the integers of a group that exceed the k-th; the new k-th.
  Values insert(Value keys, Value threshold) {
    kb.store(keys, group, {kb.index(0)}, {lanes});
    return kb.forLoop(kb.index(0), kb.index(lanes), 1, threshold, [&](Value i, ValueRange carried) {
      Value key = kb.loadScalar(group, {i});
      return kb.choose(
          kb.less(carried[0], key),
          [&] {
            insertOne(key);
            return Values{kb.loadScalar(list, {kb.index(shape.k)})};
          },
          [&] { return Values{carried[0]}; });
    });
  }

  /// list[i] = max(list[i], min(list[i−1], key)), the last elements first.
  void insertOne(Value key) {
    for (int64_t i = padded - lanes; i >= 0; i -= lanes) {
      Value here = kb.load(list, {kb.index(i + 1)}, {lanes}, 1, lanes);
      Value before = kb.load(list, {kb.index(i)}, {lanes}, 1, lanes);
      Value moved = kb.map({here, before}, kb.tile(1, lanes, kb.i32Type()),
                           [&](ValueRange args) { return kb.max(args[0], kb.min(args[1], key)); });
      kb.store(moved, list, {kb.index(i + 1)}, {lanes});
    }
  }

  /// Ids in ascending order, then −1.
  void writeIds(Value threshold) {
    Value above = kb.forLoop(kb.index(1), kb.index(shape.k + 1), 1, kb.index(0),
                             [&](Value i, ValueRange carried) {
                               Value higher = kb.less(threshold, kb.loadScalar(list, {i}));
                               return Values{kb.selectf(higher, kb.add(carried[0], 1), carried[0])};
                             })[0];
    Value equals = kb.sub(kb.index(shape.k), above); // how many of the equal ones fit
    Value begin = kb.index(0);
    Values written = kb.forLoop(
        kb.index(0), blocks, lanes, {begin, equals}, [&](Value first, ValueRange carried) {
          Value keys = keysOf(first);
          Value top = kb.extract(kb.reduce(tile::ReduceKind::Max, keys), 0, 0);
          return kb.choose(
              kb.less(top, threshold), [&] { return Values{carried[0], carried[1]}; },
              [&] { return writeGroup(keys, first, threshold, carried[0], carried[1]); });
        });
    kb.forLoop(written[0], kb.index(shape.k), 1,
               [&](Value i) { kb.storeScalar(kb.index(-1), selection, {kb.add(at, i)}); });
  }

  Values writeGroup(Value keys, Value first, Value threshold, Value written, Value equals) {
    kb.store(keys, group, {kb.index(0)}, {lanes});
    Value end = kb.min(kb.index(lanes), kb.sub(blocks, first));
    Values init = {written, equals};
    return kb.forLoop(kb.index(0), end, 1, init, [&](Value i, ValueRange carried) {
      Value key = kb.loadScalar(group, {i});
      Value isEqual = kb.equal(key, threshold);
      Value takes =
          kb.either(kb.less(threshold, key), kb.both(isEqual, kb.less(kb.index(0), carried[1])));
      return kb.choose(
          takes,
          [&] {
            kb.storeScalar(kb.add(first, i), selection, {kb.add(at, carried[0])});
            Value left = kb.selectf(isEqual, kb.add(carried[1], -1), carried[1]);
            return Values{kb.add(carried[0], 1), left};
          },
          [&] { return Values{carried[0], carried[1]}; });
    });
  }

  KernelBuilder &kb;
  const IndexShape &shape;
  const bool byWarps;
  const int64_t padded; ///< k, in whole vectors
  BatchRows batch;
  Value scores, selection, row, head, list, group, at, blocks;
  SelectionKeys keys;
};

} // namespace

void emitSelection(KernelBuilder &kb, const IndexShape &shape, bool byWarps) {
  SelectKernel(kb, shape, byWarps).emit();
}

} // namespace m3c::kernel
