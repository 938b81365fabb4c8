#include "passes/kernel/families/selection/IndexScores.h"

#include <limits>

using namespace mlir;

namespace m3c::kernel {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();

/// Parameters: batch rows, index queries [rows, heads, dims], pool (at the layer's index slot),
/// scores [rows · heads · page-table row length]. Work item: a tile of rows × a chunk of blocks.
/// Without a ring the codes pass through registers once, for one row; with it a stage of keys is
/// dequantised for all rows of the tile.
class ScoreKernel {
public:
  ScoreKernel(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
              const Schedule &schedule)
      : kb(kb), cache(cache), shape(shape), tileRows(schedule.at("rows")),
        keys(schedule.at("keys")), heads(dividing(shape.heads, schedule.at("heads"))),
        chunk(schedule.at("chunk")), stages(schedule.at("ring")), lanes(schedule.at("lanes")),
        blocksPerItem(schedule.at("blocks_per_item")), batch(kb), query(kb.parameter(4)),
        pool(kb.parameter(5)), scores(kb.parameter(6)) {}

  void emit() {
    best = kb.alloc({tileRows * shape.heads, keys}, kb.f32Type());
    ordered = kb.alloc({tileRows * shape.heads, shape.dims}, kb.f32Type());
    if (stages)
      ring = kb.ring(stages, {chunk, shape.dims}, kb.f32Type());
    Value begin = kb.mul(kb.blockId(tile::Axis::X), tileRows);
    Value end = kb.min(kb.add(begin, tileRows), batch.rows);
    Value firstBlock = kb.mul(kb.blockId(tile::Axis::Y), blocksPerItem);
    batch.eachRun(begin, end, tileRows, [&](Value first, Value last) {
      Value position = batch.lastPosition(first, last);
      Value blocks = kb.add(kb.div(position, m3::blockTokens), 1);
      Value lastBlock = kb.min(kb.add(firstBlock, blocksPerItem), blocks);
      kb.when(kb.less(firstBlock, lastBlock), [&] {
        if (!stages) // each page then brings the next one
          slotOf(first, firstBlock).bringAhead(kb.index(0), m3::blockTokens);
        orderQueries(first, last);
      });
      kb.forLoop(firstBlock, lastBlock, 1,
                 [&](Value block) { scoreBlock(first, last, position, block); });
    });
  }

private:
  void orderQueries(Value first, Value last) {
    eachRowHead(first, last, [&](Value row, Value head, Value slot) {
      kb.forLoop(kb.index(0), kb.index(shape.dims), 16, [&](Value d) {
        kb.store(loadInSlotOrder(kb, cache, query, {row, head, d}, {1, 1, 16}), ordered, {slot, d},
                 {1, 16});
      });
    });
  }

  /// The index keys of a block of a row's sequence.
  SlotReader slotOf(Value row, Value block) {
    Value offset = kb.mul(batch.page(row, block), cache.pageBytes);
    return SlotReader(kb, cache, Slot::Keys, shape.dims, pool, offset);
  }

  void scoreBlock(Value first, Value last, Value position, Value block) {
    eachRowHead(first, last, [&](Value, Value, Value slot) {
      kb.store(kb.fill(lowest, 1, keys), best, {slot, kb.index(0)}, {1, keys});
    });
    SlotReader slot = slotOf(first, block);
    if (stages) {
      scoreStages(first, last, position, block, slot);
    } else {
      // Pages lie anywhere: the next one is fetched while this one is computed.
      Value after = kb.min(kb.add(block, 1), kb.div(position, m3::blockTokens));
      SlotReader next = slotOf(first, after);
      scoreKeys(
          first, last, block, kb.index(0), m3::blockTokens,
          [&](Value key, Value group) { return directKeys(kb, slot, key, group, keys, lanes); },
          [&](Value key) { next.bringAhead(key, keys); });
    }
    eachRowHead(first, last, [&](Value row, Value head, Value slot) {
      Value own = kb.div(batch.position(row), m3::blockTokens);
      kb.when(kb.atLeast(own, block), [&] {
        Value at = kb.add(kb.mul(kb.add(kb.mul(row, shape.heads), head), batch.tableLength), block);
        kb.storeScalar(largest(slot), scores, {at});
      });
    });
  }

  void scoreStages(Value first, Value last, Value position, Value block, SlotReader &slot) {
    kb.pipeline(kb.index(0), visibleKeys(kb, position, block), chunk, [&](Value token) {
      kb.role("dequantise", [&] {
        slot.fill(token, chunk, kb.acquire(ring));
        kb.commit(ring);
      });
      kb.role("score", [&] {
        Value stage = kb.wait(ring);
        scoreKeys(first, last, block, token, chunk, [&](Value key, Value group) {
          return stagedKeys(kb, stage, key, group, keys, lanes);
        });
        kb.release(ring);
      });
    });
  }

  void eachRowHead(Value first, Value last, function_ref<void(Value, Value, Value)> body) {
    kb.forLoop(first, last, 1, [&](Value row) {
      kb.forLoop(kb.index(0), kb.index(shape.heads), 1,
                 [&](Value head) { body(row, head, slotOf(first, row, head)); });
    });
  }
  Value slotOf(Value first, Value row, Value head) {
    return kb.add(kb.mul(kb.sub(row, first), shape.heads), head);
  }

  /// The running maximum of every row and head over `count` keys from `token` on; `perKeys` is
  /// called before each step.
  void scoreKeys(Value first, Value last, Value block, Value token, int64_t count, KeySource source,
                 function_ref<void(Value)> perKeys = {}) {
    const int64_t width = heads * keys, box[] = {heads, keys};
    Value lane = kb.iota(width);
    kb.forLoop(first, last, 1, [&](Value row) {
      Value visible = kb.sub(visibleKeys(kb, batch.position(row), block), token);
      Value limit = kb.min(visible, kb.index(count));
      kb.forLoop(kb.index(0), kb.index(shape.heads), heads, [&](Value head) {
        Value slot = slotOf(first, row, head);
        Value running = kb.load(best, {slot, kb.index(0)}, box, 1, width);
        running = kb.forLoop(kb.index(0), limit, keys, running, [&](Value key, ValueRange carried) {
          if (perKeys)
            perKeys(key);
          Value dots = emitDots(kb, source, key, keys, ordered, slot, heads, lanes);
          Value seen = kb.toI32(kb.sub(limit, key));
          return Values{kb.map({dots, carried[0], lane}, 1, width, [&](ValueRange args) {
            // Larger, or not a number: NaN stays, as no comparison with it holds.
            Value wins = kb.either(kb.lessf(args[1], args[0]), kb.isNan(args[0]));
            Value column = arith::AndIOp::create(kb.builder(), args[2], kb.i32(keys - 1));
            return kb.selectf(kb.both(kb.less(column, seen), wins), args[0], args[1]);
          })};
        })[0];
        kb.store(running, best, {slot, kb.index(0)}, box);
      });
    });
  }

  /// Of the lanes of one row and head; NaN if any lane is.
  Value largest(Value slot) {
    Value lanes = kb.load(best, {slot, kb.index(0)}, {1, keys}, 1, keys);
    Value nans = kb.map(lanes, 1, keys, [&](ValueRange args) {
      return kb.selectf(kb.isNan(args[0]), kb.f32(1.0), kb.f32(0.0));
    });
    Value anyNan = kb.extract(kb.reduce(tile::ReduceKind::Max, nans), 0, 0);
    Value value = kb.extract(kb.reduce(tile::ReduceKind::Max, lanes), 0, 0);
    return kb.selectf(kb.lessf(kb.f32(0.0), anyNan), kb.f32(std::nanf("")), value);
  }

  KernelBuilder &kb;
  const CachePages &cache;
  const IndexShape &shape;
  const int64_t tileRows, keys, heads, chunk, stages, lanes, blocksPerItem;
  BatchRows batch;
  Value query, pool, scores, best, ordered, ring;
};

} // namespace

void emitPlainScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
                     const Schedule &schedule) {
  ScoreKernel(kb, cache, shape, schedule).emit();
}

} // namespace m3c::kernel
