#include "passes/kernel/families/attention/AttentionPlain.h"

#include <limits>

using namespace mlir;

namespace m3c::kernel {

bool splitsParts(const Schedule &schedule) {
  return isOn(schedule, "split") && schedule.at("rows") == 1;
}

namespace {

constexpr int64_t pageTokens = m3::blockTokens;
constexpr float lowest = -std::numeric_limits<float>::infinity();

/// Parameters: batch rows, query [rows, heads, dims], pool (at the layer's K slot of head 0),
/// (selection [rows, KV heads, k]), out [rows, heads, dims], and where parts are split the sums of
/// parts. Work item: a tile of rows × a KV head (× a part of the pages of one row).
/// Without a ring the codes of a page pass through registers, for one row; with it stages of keys,
/// then of values, are dequantised for all rows of the tile that attend to the page.
class AttentionKernel {
public:
  AttentionKernel(KernelBuilder &kb, const CachePages &cache, const AttentionShape &shape,
                  const Schedule &schedule)
      : kb(kb), cache(cache), shape(shape), tileRows(schedule.at("rows")), group(shape.group()),
        keys(schedule.at("keys")), heads(dividing(group, schedule.at("heads"))),
        valueHeads(dividing(group, schedule.at("value_heads"))),
        valueDims(dividing(shape.dims / 16, schedule.at("value_dims") / 16) * 16),
        chunk(schedule.at("chunk")), stages(schedule.at("ring")), lanes(schedule.at("lanes")),
        split(splitsParts(schedule)), batch(kb), query(kb.parameter(4)), pool(kb.parameter(5)),
        selection(shape.selected ? kb.parameter(6) : Value()),
        out(kb.parameter(shape.selected ? 7 : 6)), sums(kb, {}, shape.dims),
        totals(kb, {}, shape.dims), parts(kb, {}, shape.dims) {}

  void emit() {
    scores = kb.alloc({tileRows * group, pageTokens}, kb.f32Type());
    sums.view = kb.alloc({tileRows * group, SoftmaxSums::width(shape.dims)}, kb.f32Type());
    totals.view = kb.alloc({tileRows * group, SoftmaxSums::width(shape.dims)}, kb.f32Type());
    if (split)
      parts.view = kb.parameter(shape.selected ? 8 : 7);
    ordered = kb.alloc({tileRows * group, shape.dims}, kb.f32Type());
    cursors = kb.alloc({tileRows}, kb.i32Type());
    takers = kb.alloc({tileRows}, kb.i32Type());
    if (stages)
      ring = kb.ring(stages, {chunk, shape.dims}, kb.f32Type());
    kvHead = kb.blockId(tile::Axis::Y);
    Value begin = kb.mul(kb.blockId(split ? tile::Axis::Z : tile::Axis::X), tileRows);
    Value end = kb.min(kb.add(begin, tileRows), batch.rows);
    batch.eachRun(begin, end, tileRows, [&](Value from, Value to) {
      first = from;
      last = to;
      lastPosition = batch.lastPosition(first, last);
      if (split)
        return onePart();
      clear(kb.index(0));
      eachBlock([&](Value block) {
        attend(block);
        eachTaker(block, [&](Value r, Value) {
          kb.when(kb.equal(openPages(r), kb.index(0)), [&] { closePart(r); });
        });
      });
      kb.forLoop(kb.index(0), rowCount(), 1, [&](Value r) {
        kb.when(kb.less(kb.index(0), openPages(r)), [&] { closePart(r); });
        finish(r);
      });
    });
  }

private:
  //===- State of the rows
  Value slotOf(Value tileRow, Value head) { return kb.add(kb.mul(tileRow, group), head); }
  Value rowCount() { return kb.sub(last, first); }
  Value outHead(Value head) { return kb.add(kb.mul(kvHead, group), head); }

  /// Gets the rows ready, at page `page` of their lists.
  void clear(Value page) {
    kb.forLoop(kb.index(0), rowCount(), 1, [&](Value r) {
      kb.storeScalar(page, cursors, {r});
      kb.forLoop(kb.index(0), kb.index(group), 1, [&](Value head) {
        Value slot = slotOf(r, head);
        sums.clear(slot);
        totals.clear(slot);
        // Read sixteen at a time, written `keys` at a time.
        if (keys % 16)
          kb.forLoop(kb.index(0), kb.index(pageTokens), 16, [&](Value key) {
            kb.store(kb.fill(0.0, 1, 16), scores, {slot, key}, {1, 16});
          });
        Value queryHead = outHead(head);
        eachChunk([&](Value d) {
          kb.store(loadInSlotOrder(kb, cache, query, {kb.add(first, r), queryHead, d}, {1, 1, 16}),
                   ordered, {slot, d}, {1, 16});
        });
      });
    });
  }

  //===- Parts
  /// Pages of a row since its last part was closed.
  Value openPages(Value r) { return kb.rem(kb.loadIndex(cursors, {r}), partPages); }

  void closePart(Value r) {
    kb.forLoop(kb.index(0), kb.index(group), 1, [&](Value head) {
      Value slot = slotOf(r, head);
      totals.add(slot, sums, slot);
      sums.clear(slot);
    });
  }

  void finish(Value r) {
    kb.forLoop(kb.index(0), kb.index(group), 1, [&](Value head) {
      totals.storeMean(slotOf(r, head), cache, out, kb.add(first, r), outHead(head));
    });
  }

  /// One part of one row: alone it is the result, else its sums are kept for the merge.
  void onePart() {
    Value part = kb.blockId(tile::Axis::X), zero = kb.index(0), page = kb.mul(part, partPages);
    Value blocks = kb.add(kb.div(lastPosition, pageTokens), 1);
    // The pages of the row's list: those that the selection has room for and names.
    auto has = [&](Value i) {
      if (!selection)
        return kb.less(i, blocks);
      Value at = kb.min(i, kb.index(shape.selected - 1));
      return kb.both(kb.less(i, kb.index(shape.selected)),
                     kb.atLeast(kb.loadIndex(selection, {first, kvHead, at}), zero));
    };
    kb.when(has(page), [&] {
      pagesEnd = kb.add(page, partPages);
      clear(page);
      eachBlock([&](Value block) { attend(block); });
      kb.when(
          has(kb.index(partPages)),
          [&] {
            Value room = partsOfRow(kb, batch, shape.selected);
            kb.forLoop(zero, kb.index(group), 1, [&](Value head) {
              Value row = kb.add(kb.mul(first, shape.heads), outHead(head));
              parts.copy(kb.add(kb.mul(row, room), part), sums, head);
            });
          },
          [&] {
            closePart(zero);
            finish(zero);
          });
    });
  }

  void eachChunk(function_ref<void(Value)> body) {
    kb.forLoop(kb.index(0), kb.index(shape.dims), 16, body);
  }

  //===- Blocks
  /// Blocks that any row of the run attends to, ascending; `takers` lists the rows.
  void eachBlock(function_ref<void(Value)> body) {
    Value blocks = kb.add(kb.div(lastPosition, pageTokens), 1);
    if (!selection) {
      Value from = kb.index(0);
      if (split) {
        from = kb.sub(pagesEnd, kb.index(partPages));
        blocks = kb.min(blocks, pagesEnd);
      }
      kb.forLoop(from, blocks, 1, [&](Value block) {
        listTakers([&](Value r) {
          return kb.atLeast(kb.div(batch.position(kb.add(first, r)), pageTokens), block);
        });
        body(block);
      });
      return;
    }
    Value most = split ? kb.index(partPages) : kb.min(blocks, kb.mul(rowCount(), shape.selected));
    Value end = kb.index(INT32_MAX);
    kb.forLoop(kb.index(0), most, 1, [&](Value) {
      Value block = kb.forLoop(kb.index(0), rowCount(), 1, end, [&](Value r, ValueRange carried) {
        return Values{kb.min(carried[0], nextOf(r))};
      })[0];
      kb.when(kb.less(block, end), [&] {
        listTakers([&](Value r) { return kb.equal(nextOf(r), block); });
        body(block);
      });
    });
  }

  /// The block that the first row attends to after this one, or this one.
  Value blockAfter(Value block) {
    if (!selection)
      return kb.min(kb.add(block, 1), kb.div(lastPosition, pageTokens));
    Value next = nextOf(kb.index(0));
    return kb.selectf(kb.less(next, kb.index(INT32_MAX)), next, block);
  }

  /// The next block of a row's selection; past its end the largest integer.
  Value nextOf(Value r) {
    Value cursor = kb.loadIndex(cursors, {r});
    Value inside = kb.less(cursor, kb.index(shape.selected));
    Value at = kb.min(cursor, kb.index(shape.selected - 1));
    Value block = kb.loadIndex(selection, {kb.add(first, r), kvHead, at});
    Value valid = kb.both(inside, kb.atLeast(block, kb.index(0)));
    return kb.selectf(valid, block, kb.index(INT32_MAX));
  }

  void listTakers(function_ref<Value(Value)> takes) {
    takerCount =
        kb.forLoop(kb.index(0), rowCount(), 1, kb.index(0), [&](Value r, ValueRange carried) {
          return kb.choose(
              takes(r),
              [&] {
                kb.storeScalar(r, takers, {carried[0]});
                kb.storeScalar(kb.add(kb.loadIndex(cursors, {r}), 1), cursors, {r});
                return Values{kb.add(carried[0], 1)};
              },
              [&] { return Values{carried[0]}; });
        })[0];
  }

  /// Calls `body` for every row that takes the block, with the keys that it may see.
  void eachTaker(Value block, function_ref<void(Value r, Value visible)> body) {
    kb.forLoop(kb.index(0), takerCount, 1, [&](Value i) {
      Value r = kb.loadIndex(takers, {i});
      body(r, visibleKeys(kb, batch.position(kb.add(first, r)), block));
    });
  }

  //===- One page
  /// Where the K slot of a block begins; the V slot follows it.
  Value slotOffset(Value block) {
    return kb.add(kb.mul(batch.page(first, block), cache.pageBytes),
                  kb.mul(kvHead, 2 * cache.slotBytes));
  }

  void attend(Value block) {
    Value offset = slotOffset(block);
    SlotReader keySlot(kb, cache, Slot::Keys, shape.dims, pool, offset);
    SlotReader valueSlot(kb, cache, Slot::Values, shape.dims, pool,
                         kb.add(offset, cache.slotBytes));
    Value ahead = slotOffset(blockAfter(block));
    SlotReader nextKeys(kb, cache, Slot::Keys, shape.dims, pool, ahead);
    SlotReader nextValues(kb, cache, Slot::Values, shape.dims, pool,
                          kb.add(ahead, cache.slotBytes));
    eachStage(block, keySlot, [&](Value r, Value token, Value limit, Value stage) {
      score(
          r, token, limit,
          [&](Value key, Value group) {
            return stage ? stagedKeys(kb, stage, key, group, keys, lanes)
                         : directKeys(kb, keySlot, key, group, keys, lanes);
          },
          [&](Value key) {
            if (!stage) { // pages lie anywhere: the next one is fetched while this one is computed
              nextKeys.bringAhead(key, keys);
              nextValues.bringAhead(key, keys);
            }
          });
    });
    eachTaker(block, [&](Value r, Value seen) {
      kb.forLoop(kb.index(0), kb.index(group), 1,
                 [&](Value head) { softmax(slotOf(r, head), seen); });
    });
    eachStage(block, valueSlot, [&](Value r, Value token, Value limit, Value stage) {
      weigh(r, token, limit, [&](Value key, Value group) {
        return stage ? kb.load(stage, {key, kb.mul(group, 16)}, {1, 16}, 1, 16)
                     : valueSlot.values(key, group);
      });
    });
  }

  /// Calls `body` for the rows that take the block: with a ring once per stage, else with no stage
  /// and all tokens at once. `token` is the first, `limit` how many the row sees from there.
  void eachStage(Value block, SlotReader &slot,
                 function_ref<void(Value r, Value token, Value limit, Value stage)> body) {
    if (!stages) {
      eachTaker(block, [&](Value r, Value seen) { body(r, kb.index(0), seen, {}); });
      return;
    }
    kb.pipeline(kb.index(0), visibleKeys(kb, lastPosition, block), chunk, [&](Value token) {
      kb.role("dequantise", [&] {
        slot.fill(token, chunk, kb.acquire(ring));
        kb.commit(ring);
      });
      kb.role("attend", [&] {
        Value stage = kb.wait(ring);
        eachTaker(block, [&](Value r, Value seen) {
          body(r, token, kb.min(kb.sub(seen, token), kb.index(chunk)), stage);
        });
        kb.release(ring);
      });
    });
  }

  /// Products of a row's query heads with `limit` keys of a source; `perKeys` is called before each
  /// step.
  void score(Value r, Value token, Value limit, KeySource source,
             function_ref<void(Value)> perKeys) {
    kb.forLoop(kb.index(0), kb.index(group), heads, [&](Value head) {
      kb.forLoop(kb.index(0), limit, keys, [&](Value key) {
        perKeys(key);
        Value slot = slotOf(r, head);
        Value dots = emitDots(kb, source, key, keys, ordered, slot, heads, lanes);
        kb.store(kb.reshape(dots, heads, keys), scores, {slot, kb.add(token, key)}, {heads, keys});
      });
    });
  }

  /// Turns a row of scores into weights, and rescales what the row has summed so far. Keys that the
  /// row does not see are left out by their number, whatever their bytes are.
  void softmax(Value slot, Value seen) {
    Value column = kb.iota(16), scale = kb.f32(shape.scale);
    auto load = [&](Value key) { return kb.load(scores, {slot, key}, {1, 16}, 1, 16); };
    Value best = kb.forLoop(
        kb.index(0), seen, 16, kb.fill(lowest, 1, 16), [&](Value key, ValueRange carried) {
          Value left = kb.toI32(kb.sub(seen, key));
          return Values{kb.map({load(key), carried[0], column}, 1, 16, [&](ValueRange args) {
            Value x = kb.mulf(args[0], scale);
            Value larger = kb.maxf(x, args[1]);
            return kb.selectf(kb.less(args[2], left), larger, args[1]);
          })};
        })[0];
    Value before = sums.largest(slot);
    Value now = kb.maxf(kb.extract(kb.reduce(tile::ReduceKind::Max, best), 0, 0), before);
    Value total =
        kb.forLoop(kb.index(0), seen, 16, kb.fill(0.0, 1, 16), [&](Value key, ValueRange carried) {
          Value left = kb.toI32(kb.sub(seen, key));
          Value weight = kb.map({load(key), column}, 1, 16, [&](ValueRange args) {
            Value power = kb.expf(kb.subf(kb.mulf(args[0], scale), now));
            return kb.selectf(kb.less(args[1], left), power, kb.f32(0.0));
          });
          kb.store(weight, scores, {slot, key}, {1, 16});
          return Values{kb.map({carried[0], weight}, 1, 16,
                               [&](ValueRange args) { return kb.addf(args[0], args[1]); })};
        })[0];
    Value keep = kb.expf(kb.subf(before, now));
    Value sum = kb.extract(kb.reduce(tile::ReduceKind::Add, total), 0, 0);
    sums.setLargest(slot, now);
    sums.setWeight(slot, kb.addf(kb.mulf(sums.weight(slot), keep), sum));
    eachChunk([&](Value d) {
      Value old = kb.load(sums.view, {slot, d}, {1, 16}, 1, 16);
      kb.store(kb.map(old, 1, 16, [&](ValueRange args) { return kb.mulf(args[0], keep); }),
               sums.view, {slot, d}, {1, 16});
    });
  }

  /// Adds `limit` values of a source, weighted, to a row's sums: one chain over ascending keys.
  void weigh(Value r, Value token, Value limit,
             function_ref<Value(Value key, Value group)> source) {
    const int64_t groups = valueDims / 16, box[] = {valueHeads, 16};
    kb.forLoop(kb.index(0), kb.index(group), valueHeads, [&](Value head) {
      Value slot = slotOf(r, head);
      kb.forLoop(kb.index(0), kb.index(shape.dims / 16), groups, [&](Value group) {
        auto dimOf = [&](int64_t g) { return kb.mul(kb.add(group, g), 16); };
        Values start;
        for (int64_t g = 0; g < groups; ++g)
          start.push_back(kb.load(sums.view, {slot, dimOf(g)}, box, valueHeads, 16));
        Values ends = kb.forLoop(kb.index(0), limit, 1, start, [&](Value key, ValueRange carried) {
          Value p = kb.load(scores, {slot, kb.add(token, key)}, {valueHeads, 1}, valueHeads, 1);
          Values next;
          for (int64_t g = 0; g < groups; ++g)
            next.push_back(kb.fma(p, source(key, kb.add(group, g)), carried[g]));
          return next;
        });
        for (int64_t g = 0; g < groups; ++g)
          kb.store(ends[g], sums.view, {slot, dimOf(g)}, box);
      });
    });
  }

  KernelBuilder &kb;
  const CachePages &cache;
  const AttentionShape &shape;
  const int64_t tileRows, group, keys, heads, valueHeads, valueDims, chunk, stages, lanes;
  const bool split;
  BatchRows batch;
  Value query, pool, selection, out;
  SoftmaxSums sums, totals, parts; ///< of the open part, of closed ones, of split ones
  Value scores, ordered, cursors, takers, ring;
  Value kvHead, first, last, lastPosition, takerCount;
  Value pagesEnd; ///< of a split part: past its last page
};

} // namespace

void emitPlainAttention(KernelBuilder &kb, const CachePages &cache, const AttentionShape &shape,
                        const Schedule &schedule) {
  AttentionKernel(kb, cache, shape, schedule).emit();
}

} // namespace m3c::kernel
