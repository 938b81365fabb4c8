#include "passes/kernel/families/attention/tensor/AttentionTensor.h"

#include "passes/kernel/families/attention/FlatRows.h"
#include "passes/kernel/families/attention/tensor/TensorSums.h"
#include "passes/kernel/families/cache/WorkShare.h"
#include "passes/kernel/products/Product.h"

#include <numbers>

using namespace mlir;

namespace m3c::kernel {
namespace {

constexpr int64_t heads = attentionHeads; // columns of a product
/// Accumulators of scores: one is read while the next one is made.
constexpr int64_t scoreStages = 2;
/// Bytes of a page's values in FP16.
constexpr int64_t valueBytes = 2 * 128 * 128;

using tile::Gate;

class TensorAttention {
public:
  TensorAttention(KernelBuilder &kb, const AttentionParameters &parameters, const CachePages &cache,
                  const AttentionShape &shape, const Schedule &schedule)
      : kb(kb), t(kb, productOf(schedule)), cache(cache), shape(shape), roles(schedule, "soften"),
        stages(schedule.at("tensor_stages")), rawStages(schedule.at("stages")),
        parts(schedule.at("parts")), isFlat(kernel::isFlat(schedule)), batch(kb),
        rows(kb, batch, parts, shape.selected), lists(kb, batch, rows, shape, 1),
        slots(kb, batch, rows, schedule, shape.kvHeads), sums(kb, shape, parameters),
        query(parameters.query), pool(parameters.pool), selection(parameters.selection),
        out(parameters.out), arrivals(parameters.arrivals) {
    kb.kernel().setWarps(uint64_t(roles.warps()));
  }

  void emit() {
    allocate();
    if (isFlat)
      return emitFlat();
    part = kb.blockId(tile::Axis::X);
    kvHead = kb.blockId(tile::Axis::Y);
    row = kb.blockId(tile::Axis::Z);
    position = batch.position(row);
    tableRow = kb.mul(kb.loadIndex(batch.sequences, {row}), batch.tableLength);
    listAt = kb.mul(kb.add(kb.mul(row, shape.kvHeads), kvHead), shape.selected);
    kb.when(kb.less(row, batch.rows), [&] {
      divide();
      kb.when(kb.less(part, used), [&] { work(); });
    });
  }

private:
  void allocate() {
    values = kb.alloc({stages * valueBytes}, kb.byteType());
    weights = kb.alloc({128, heads}, kb.builder().getI16Type());
    queries = kb.alloc({heads, 128}, kb.byteType());
    ring = kb.ring(rawStages, {2 * cache.slotBytes}, kb.byteType(), laneWarps);
    dequantised = t.gates(stages, laneWarps, 1);
    scored = t.gates(scoreStages, 1, laneWarps);
    weighted = t.gates(1, laneWarps, 1);
    if (isFlat)
      asked = t.gates(1, 1, 1);
    tops = kb.alloc({2, laneWarps, heads}, kb.f32Type());
    sums.allocate();
  }

  void work() {
    memory = t.memory(stages * keyColumns + scoreStages * heads + heads);
    roles.emit(
        kb, [&] { soften(); }, [&] { dequantise(); }, [&] { multiply(); }, [&] { loadPages(); });
    t.free(memory); // all threads meet: sums are seen
    finish();
  }

  //===- The pages of a part
  /// begin … end − 1: this part's places in the row's list of pages.
  void divide() {
    Value count = kb.add(kb.div(position, m3::blockTokens), 1);
    if (selection)
      count = kb.forLoop(kb.index(0), kb.index(shape.selected), 1, kb.index(0),
                         [&](Value i, ValueRange carried) {
                           Value names = kb.atLeast(blockAt(i), kb.index(0));
                           return Values{kb.selectf(names, kb.add(i, 1), carried[0])};
                         })[0];
    EmittedShare share = emitShare(kb, count, kb.index(parts), part);
    begin = share.begin;
    pageCount = kb.sub(share.end, share.begin);
    // A row without pages has one part with nothing in it.
    used = kb.max(emitUsedParts(kb, count, kb.index(parts)), kb.index(1));
  }
  Value blockAt(Value place) { return kb.loadIndex(selection, {kb.add(listAt, place)}); }
  Value blockOf(Value use) {
    Value place = kb.add(begin, use);
    return selection ? blockAt(place) : place;
  }
  /// How many keys of the use's page the row may see: 128 or more, all of them.
  Value seenOf(Value use) {
    if (isFlat)
      return lists.seen(use);
    return kb.sub(kb.add(position, 1), kb.mul(blockOf(use), m3::blockTokens));
  }

  /// Role: brings pages, K and V side by side, in the order of the list.
  void loadPages() {
    kb.forLoop(kb.index(0), pageCount, 1, [&](Value use) {
      bring(use, kb.loadIndex(batch.table, {kb.add(tableRow, blockOf(use))}));
    });
  }
  void bring(Value use, Value page) {
    Value offset = kb.add(kb.mul(page, cache.pageBytes), kb.mul(kvHead, 2 * cache.slotBytes));
    kb.acquire(ring, use);
    kb.fillStage(ring, use, pool, offset);
    kb.commit(ring, use);
  }

  /// Role: keys to tensor memory, values to shared memory.
  void dequantise() {
    kb.forLoop(kb.index(0), pageCount, 1, [&](Value use) {
      Value stage = kb.wait(ring, use);
      t.wait(Gate::Empty, dequantised, use);
      t.keys(t.slot(stage, 0), keysOf(use));
      t.values(t.slot(stage, cache.slotBytes), seenOf(use), valuesOf(use));
      kb.release(ring, use);
      t.signal(Gate::Full, dequantised, use);
    });
    // No product may tell of its end where nobody is any more.
    for (int64_t i = 0; i < stages; ++i)
      t.wait(Gate::Empty, dequantised, kb.add(pageCount, i));
  }

  //===- The pages of all rows
  void emitFlat() {
    rows.allocate();
    lists.allocate();
    part = kb.blockId(tile::Axis::X);
    kvHead = kb.blockId(tile::Axis::Y);
    kb.when(kb.less(kb.index(0), batch.rows), [&] {
      kb.when(kb.equal(kb.warpId(), kb.index(0)), [&] { rows.lay(); });
      kb.barrier();
      rows.divide(part);
      pageCount = kb.sub(rows.end, rows.begin);
      kb.when(kb.less(kb.index(0), pageCount), [&] {
        memory = t.memory(stages * keyColumns + scoreStages * heads + heads);
        roles.emit(
            kb, [&] { softenRows(); }, [&] { dequantise(); }, [&] { multiplyRows(); },
            [&] { loadList(); });
        t.free(memory);
        addParts();
      });
    });
  }

  /// The uses of the row's pages.
  std::pair<Value, Value> usesOf(Value row) {
    auto [from, to] = rows.ownOf(row);
    return {kb.sub(from, rows.begin), kb.sub(to, rows.begin)};
  }
  void eachRow(function_ref<void(Value use, Value end)> body) {
    kb.forLoop(rows.first, kb.add(rows.last, 1), 1, [&](Value number) {
      row = number;
      auto [use, end] = usesOf(row);
      body(use, end);
    });
  }

  /// Role: brings the pages of the stretch, whatever row they are of.
  void loadList() {
    Value loader = kb.index(0);
    kb.forLoop(kb.index(0), pageCount, FlatPages::listed, [&](Value first) {
      lists.list(first, kvHead, loader, selection);
      Value stop = kb.min(kb.add(first, FlatPages::listed), pageCount);
      kb.forLoop(first, stop, 1,
                 [&](Value use) { bring(use, lists.page(loader, kb.sub(use, first))); });
    });
  }

  /// Role: as `multiply`. The queries of a row take the place of those before when all their
  /// products have ended; the means of a row begin anew, which soften has read by then, as it has
  /// signalled the weights of the row's first page after that.
  void multiplyRows() {
    Value never = arith::ConstantIntOp::create(kb.builder(), 0, 1);
    eachRow([&](Value first, Value end) {
      Value number = kb.sub(row, rows.first);
      kb.when(kb.less(kb.index(0), number), [&] { t.wait(Gate::Full, asked, kb.add(number, -1)); });
      Value head = queryRow(), before = kb.max(kb.add(row, -1), rows.first);
      Value beginBefore = usesOf(before).first;
      tile::OperandQueriesOp::create(kb.builder(), query, head, kb.add(head, shape.group()),
                                     queries);
      kb.forLoop(first, end, 1, [&](Value use) {
        multiplyKeys(use, never);
        Value isLast = kb.equal(kb.add(use, 1), end);
        kb.when(kb.both(isLast, kb.less(row, rows.last)),
                [&] { t.commit(Gate::Full, asked, number); });
        kb.when(kb.less(kb.index(0), use), [&] {
          Value begin = kb.selectf(kb.equal(use, first), beginBefore, first);
          multiplyValues(kb.add(use, -1), begin);
        });
      });
    });
    multiplyValues(kb.add(pageCount, -1), usesOf(rows.last).first);
  }

  /// `first`: of the row's pages.
  void multiplyValues(Value use, Value first) {
    t.wait(Gate::Full, weighted, use);
    t.multiply(valuesOf(use), weights, means(), kb.less(first, use));
    t.commit(Gate::Empty, weighted, use);
    t.commit(Gate::Empty, dequantised, use);
  }

  /// Role: as `soften`, one row after the other.
  void softenRows() {
    quarter = kb.rem(kb.warpId(), laneWarps);
    token = t.laneNumbers();
    eachRow([&](Value first, Value end) {
      State start = {t.fill(0, t.rows(heads)), t.fill(lowestScore, t.row(heads))};
      Values added = kb.forLoop(first, end, 1, start.all(), [&](Value use, ValueRange carried) {
        return step(use, first, State::of(carried)).all();
      });
      t.wait(Gate::Empty, weighted, end); // the row's last product has ended
      storeSums(State::of(added));
      kb.barrier(); // before the next row's sums are stored there is that of its first page
      Value shared = rows.isShared(row), slot = slots.own(kvHead, part, row);
      kb.forLoop(quarter, kb.index(shape.group()), laneWarps, [&](Value head) {
        kb.when(
            shared, [&] { sums.keep(slot, head, sums.own(head)); },
            [&] { storeMean(head, sums.load(head), sums.weight(head)); });
      });
    });
  }

  /// The first and the last row may have parts elsewhere: who comes last adds them.
  void addParts() {
    slots.eachShared([&](Value number) {
      row = number;
      slots.meet(
          kvHead, part, row, arrivals,
          [&](const SlotRun &run, Value slot) {
            eachHead([&](Value head) {
              TensorSum sum = sums.merged(run.base, run.count, head);
              sums.keep(slot, head, sum);
            });
          },
          [&](const SlotRun &run) {
            eachHead([&](Value head) {
              TensorSum sum = sums.merged(run.base, run.count, head);
              storeMean(head, sum.values, sum.weight);
            });
          });
    });
  }

  //===- Where things are
  Value keysOf(Value use) {
    return t.part(memory, kb.mul(kb.rem(use, stages), keyColumns), keyColumns, kb.i32Type());
  }
  Value valuesOf(Value use) {
    return kb.reinterpret(values, kb.mul(kb.rem(use, stages), valueBytes),
                          kb.view({2, 128, 64}, kb.builder().getI16Type(), tile::Space::Shared));
  }
  Value scoresOf(Value use) {
    Value column = kb.add(kb.mul(kb.rem(use, scoreStages), heads), stages * keyColumns);
    return t.part(memory, column, heads, kb.f32Type());
  }
  Value means() {
    return t.part(memory, kb.index(stages * keyColumns + scoreStages * heads), heads, kb.f32Type());
  }

  //===- Products
  /// Role: the scores of a page go before the values of the page before it.
  void multiply() {
    Value first = queryRow();
    tile::OperandQueriesOp::create(kb.builder(), query, first, kb.add(first, shape.group()),
                                   queries);
    Value never = arith::ConstantIntOp::create(kb.builder(), 0, 1);
    kb.forLoop(kb.index(0), kb.add(pageCount, 1), 1, [&](Value use) {
      kb.when(kb.less(use, pageCount), [&] { multiplyKeys(use, never); });
      kb.when(kb.less(kb.index(0), use), [&] { multiplyValues(kb.add(use, -1), kb.index(0)); });
    });
  }
  void multiplyKeys(Value use, Value never) {
    t.wait(Gate::Full, dequantised, use);
    t.wait(Gate::Empty, scored, use);
    t.multiply(keysOf(use), queries, scoresOf(use), never);
    t.commit(Gate::Full, scored, use);
  }

  //===- Softmax
  struct State {
    Value weights, largest; ///< of each lane's tokens; of all, alike in every lane
    SmallVector<Value> all() const { return {weights, largest}; }
    static State of(ValueRange values) { return {values[0], values[1]}; }
  };

  /// Role: a warp has a quarter of the tokens of each page, later a quarter of the dims.
  void soften() {
    quarter = kb.rem(kb.warpId(), laneWarps);
    token = t.laneNumbers();
    State start = {t.fill(0, t.rows(heads)), t.fill(lowestScore, t.row(heads))};
    Values end =
        kb.forLoop(kb.index(0), pageCount, 1, start.all(), [&](Value use, ValueRange carried) {
          return step(use, kb.index(0), State::of(carried)).all();
        });
    State state = State::of(end);
    t.wait(Gate::Empty, weighted, pageCount); // the last product has ended
    storeSums(state);
  }

  /// What all lanes have summed, for those who add it up after a barrier.
  void storeSums(const State &state) {
    Value at = kb.mul(quarter, 32);
    kb.when(
        kb.less(kb.index(0), pageCount),
        [&] { t.storeLanes(t.load(means()), sums.values, {kb.index(0), at}); },
        [&] { t.storeLanes(t.fill(0, t.rows(heads)), sums.values, {kb.index(0), at}); });
    sums.storeRows(t, quarter, state.weights, state.largest);
  }

  /// Adds a page; `first` is the row's first.
  State step(Value use, Value first, State state) {
    t.wait(Gate::Full, scored, use);
    if (isFlat) // what the loader has noted is seen after what it told of
      t.wait(Gate::Full, dequantised, use);
    Value scores = t.load(scoresOf(use));
    t.signal(Gate::Empty, scored, use);
    Value seen = kb.toI32(seenOf(use));
    scores = kb.map({scores, token}, t.rows(heads), [&](ValueRange args) {
      return kb.selectf(kb.less(args[1], seen), args[0], kb.f32(lowestScore));
    });
    Value top = topOf(use, scores);
    double slack = slackBits / (shape.scale * std::numbers::log2e);
    Value grows =
        kb.map({top, state.largest}, t.row(heads, kb.builder().getI1Type()),
               [&](ValueRange args) { return kb.lessf(kb.addf(args[1], kb.f32(slack)), args[0]); });
    Value any = tile::AnyOp::create(kb.builder(), kb.builder().getI1Type(), grows);
    Value largest = kb.choose(
        any, [&] { return Values{larger(top, state.largest)}; },
        [&] { return Values{state.largest}; })[0];
    Value weighting = kb.map({scores, largest}, t.rows(heads), [&](ValueRange args) {
      Value shift = kb.mulf(args[1], scale());
      return kb.exp2f(kb.fmaf(args[0], scale(), arith::NegFOp::create(kb.builder(), shift)));
    });
    auto awaitMeans = [&] { t.wait(Gate::Empty, weighted, use); }; // the product before has ended
    if (isFlat) // that of the row before was waited for with its sums
      kb.when(kb.less(first, use), awaitMeans);
    else
      awaitMeans();
    Value kept = kb.choose(
        any, [&] { return Values{rescaled(use, first, state, largest)}; },
        [&] { return Values{state.weights}; })[0];
    Value rounded =
        tile::OperandWeightsOp::create(kb.builder(), weighting.getType(), weighting, weights);
    t.signal(Gate::Full, weighted, use);
    Value total = kb.map({kept, rounded}, t.rows(heads),
                         [&](ValueRange args) { return kb.addf(args[0], args[1]); });
    return {total, largest};
  }

  Value larger(Value a, Value b) {
    return kb.map({a, b}, t.row(heads), [&](ValueRange args) { return kb.maxf(args[0], args[1]); });
  }

  /// The largest scores of a page, over all warps. Each use has its own half of the memory: nobody
  /// writes a half before all have read it, since they meet in between.
  Value topOf(Value use, Value scores) {
    Value half = kb.rem(use, 2);
    kb.store(t.reduce(tile::ReduceKind::Max, scores), tops, {half, quarter, kb.index(0)},
             {1, 1, heads});
    kb.barrier();
    Value top;
    for (int64_t warp = 0; warp < laneWarps; ++warp) {
      Value next = t.loadRow(tops, {half, kb.index(warp), kb.index(0)}, t.row(heads));
      top = warp ? larger(next, top) : next;
    }
    return top;
  }

  /// Sums of weights under a larger maximum; those in tensor memory likewise.
  Value rescaled(Value use, Value first, State state, Value largest) {
    Value keep = kb.map({state.largest, largest}, t.row(heads), [&](ValueRange args) {
      return kb.exp2f(kb.mulf(kb.subf(args[0], args[1]), scale()));
    });
    auto scaled = [&](Value sums) {
      return kb.map({sums, keep}, t.rows(heads),
                    [&](ValueRange args) { return kb.mulf(args[0], args[1]); });
    };
    kb.when(kb.less(first, use), [&] {
      Value place = means();
      t.store(scaled(t.load(place)), place);
    });
    return scaled(state.weights);
  }

  //===- Sums
  Value scale() { return sums.scale(); }
  Value queryRow() { return kb.add(kb.mul(row, shape.heads), kb.mul(kvHead, shape.group())); }

  /// A warp each.
  void eachHead(function_ref<void(Value head)> body) {
    kb.eachByWarp(kb.index(0), kb.index(shape.group()), body);
  }

  void storeMean(Value head, Value values, Value weight) {
    Value mean = sums.mean(values, weight);
    kb.storeF32(mean, out, {kb.add(queryRow(), head), kb.index(0)}, {1, shape.dims});
  }

  void finish() {
    auto mean = [&] {
      eachHead([&](Value head) { storeMean(head, sums.load(head), sums.weight(head)); });
    };
    if (parts == 1)
      return mean();
    Value item = kb.add(kb.mul(row, shape.kvHeads), kvHead), base = kb.mul(item, parts);
    kb.when(kb.equal(used, kb.index(1)), mean, [&] {
      Value slot = kb.add(base, part);
      eachHead([&](Value head) { sums.keep(slot, head, sums.own(head)); });
      Value last = kb.arriveLast(arrivals, item, used);
      kb.when(last, [&] { eachHead([&](Value head) { merge(base, head); }); });
    });
  }

  void merge(Value base, Value head) {
    TensorSum sum = sums.merged(base, used, head);
    storeMean(head, sum.values, sum.weight);
  }

  KernelBuilder &kb;
  TensorTiles t;
  const CachePages &cache;
  const AttentionShape &shape;
  const TensorRoles roles;
  const int64_t stages, rawStages, parts;
  const bool isFlat; ///< the pages of all rows lie end to end
  BatchRows batch;
  FlatRows rows;
  FlatPages lists;
  FlatSums slots;
  TensorSums sums;
  Value query, pool, selection, out, arrivals;
  Value values, weights, queries, ring, dequantised, scored, weighted, memory;
  Value asked; ///< all scores of a row's queries are there
  Value tops;
  Value part, kvHead, row, position, tableRow, listAt, begin, pageCount, used, quarter, token;
};

} // namespace

bool tensorAttentionServes(const AttentionShape &shape, m3::CacheType cache, Value query) {
  return shape.group() <= heads && tensorServes(cache, shape.dims, query);
}

LogicalResult emitTensorAttention(StepLowering &step, const CachePages &cache,
                                  const AttentionShape &shape, const Schedule &schedule,
                                  const AttentionOperands &operands) {
  std::optional<PartMemory> memory;
  if (isFlat(schedule))
    memory = FlatSums::memory(step.rows, schedule, {heads, shape.dims});
  else if (int64_t parts = schedule.at("parts"); parts > 1)
    memory = {parts, 1, {heads, shape.dims}};
  return emitPartedAttention(
      step, cache, shape, schedule, operands, memory,
      [&](KernelBuilder &kb, const AttentionParameters &parameters) {
        TensorAttention(kb, parameters, cache, shape, schedule).emit();
      },
      isFlat(schedule) ? step.rows : 1);
}

} // namespace m3c::kernel
