#include "passes/kernel/families/attention/matrix/AttentionShared.h"

#include "passes/kernel/families/attention/matrix/AttentionMatrix.h"
#include "passes/kernel/families/attention/matrix/AttentionSteps.h"
#include "passes/kernel/families/attention/matrix/AttentionSums.h"
#include "passes/kernel/families/attention/matrix/SharedPages.h"
#include "passes/kernel/families/cache/WorkShare.h"
#include "passes/kernel/products/Product.h"

#include <algorithm>

using namespace mlir;

namespace m3c::kernel {
namespace {

/// Pages of a part that are brought before the first is multiplied. One stage is left: the warp
/// that brings the next page then waits for nobody but those that are a whole page behind.
int64_t aheadOf(int64_t stages) { return stages - 2; }

class SharedAttention {
public:
  SharedAttention(KernelBuilder &kb, const AttentionParameters &parameters, const CachePages &cache,
                  const AttentionShape &shape, const Schedule &schedule, const MatrixUnit &unit)
      : kb(kb), m(kb, unit, cache.paired()), cache(cache), shape(shape),
        tileRows(schedule.at("shared_rows")), warps(schedule.at("consumers")),
        stages(schedule.at("stages")), parts(schedule.at("parts")), product(productOf(schedule)),
        batch(kb), steps(kb, m, shape), sums(kb, m, shape.dims, steps.scaleBits(), warps),
        parameters(parameters), partSums{parameters.partValues, parameters.partRows} {
    kb.kernel().setWarps(uint64_t(warps));
  }

  void emit() {
    ring = kb.ring(stages, {2 * cache.slotBytes}, kb.byteType(), pageWarps);
    if (cache.paired() && product == CodeProduct::Table)
      table = kb.alloc({256, 8}, kb.byteType());
    queries = m.allocQueries(parameters.query, tileRows, shape.dims);
    SharedPages list(kb, batch, shape, tileRows);
    warpSums = {Value(), kb.alloc({warps * roundRows(), 2, 16}, kb.f32Type())};
    pages = &list;
    part = kb.blockId(tile::Axis::X);
    kvHead = kb.blockId(tile::Axis::Y);
    tile = kb.blockId(tile::Axis::Z);
    firstRow = kb.mul(tile, tileRows);
    kb.when(kb.less(firstRow, batch.rows), [&] {
      prepare();
      list.list(parameters.selection, firstRow, kvHead);
      EmittedShare share = emitShare(kb, list.count(), kb.index(parts), part);
      begin = share.begin;
      count = kb.sub(share.end, share.begin);
      // A tile without pages has one part with nothing in it.
      used = kb.max(emitUsedParts(kb, list.count(), kb.index(parts)), kb.index(1));
      kb.when(kb.less(part, used), [&] { finish(attend()); });
    });
  }

private:
  //===- Before
  Value rowOf(Value tileRow) { return kb.add(firstRow, tileRow); }
  Value queryRow(Value row) {
    return kb.add(kb.mul(row, shape.heads), kb.mul(kvHead, shape.group()));
  }

  void prepare() {
    if (table)
      tile::CodeTableOp::create(kb.builder(), table);
    Value last = kb.add(batch.rows, -1);
    kb.eachByWarp(kb.index(0), kb.index(tileRows), [&](Value tileRow) {
      Value head = queryRow(kb.min(rowOf(tileRow), last));
      m.storeQueries(parameters.query, head, shape.dims, kb.add(head, shape.group()), queries,
                     tileRow);
    });
    steps.nameTokens();
  }

  //===- Pages of the part
  /// Starts to bring the page of a use; `commit` ends it.
  void bring(Value use) {
    Value offset = kb.add(kb.mul(pages->page(kb.add(begin, use)), cache.pageBytes),
                          kb.mul(kvHead, 2 * cache.slotBytes));
    kb.acquire(ring, use);
    kb.fillStage(ring, use, parameters.pool, offset);
  }

  /// What this warp has summed of each row: a warp takes a quarter of each page of its team. Pages
  /// are brought by the warps in turn.
  Values attend() {
    Value warp = kb.warpId(), quarter = kb.rem(warp, pageWarps);
    const int64_t teams = warps / pageWarps, ahead = aheadOf(stages);
    Value early = kb.min(count, kb.index(ahead));
    kb.forLoop(warp, early, warps, [&](Value use) { bring(use); });
    kb.forLoop(warp, early, warps, [&](Value use) { kb.commit(ring, use); });
    Values start;
    for (int64_t row = 0; row < tileRows; ++row)
      llvm::append_range(start, steps.nothing().all());
    return kb.forLoop(kb.div(warp, pageWarps), count, teams, start,
                      [&](Value use, ValueRange carried) {
                        Value next = kb.add(use, ahead);
                        Value turn = kb.rem(kb.div(use, teams), pageWarps);
                        Value mine = kb.both(kb.equal(turn, quarter), kb.less(next, count));
                        kb.when(mine, [&] { bring(next); });
                        Value stage = kb.wait(ring, use);
                        Values sums = multiply(stage, kb.add(begin, use), quarter, carried);
                        kb.release(ring, use);
                        kb.when(mine, [&] { kb.commit(ring, next); });
                        return sums;
                      });
  }

  /// Keys and values of the step are dequantised once, and multiplied for every row that sees some
  /// of the tokens. Where a row does not see all of them, in the newest page of its sequence, it
  /// has values of its own: those of later tokens, whatever they are, must not touch its sums.
  Values multiply(Value stage, Value place, Value quarter, ValueRange carried) {
    Value first = kb.mul(quarter, stepTokens);
    SmallVector<Value> seen;
    for (int64_t row = 0; row < tileRows; ++row)
      seen.push_back(kb.sub(pages->seen(place, row), first));
    StagedSlot keySlot(m, cache, shape.dims, stage, 0, product, table);
    StagedSlot valueSlot(m, cache, shape.dims, stage, cache.slotBytes, product, table);
    Values keys, values;
    for (int64_t i = 0; i < steps.operands(); ++i)
      keys.push_back(keySlot.keyColumns(steps.tokenOf(first, i)));
    for (int64_t i = 0; i < steps.operands(); ++i)
      values.push_back(valueSlot.values(steps.tokenOf(first, i), steps.limitOf({}, i)));
    Values next;
    for (int64_t row = 0; row < tileRows; ++row) {
      AttentionState state = AttentionState::of(carried.slice(size_t(3 * row), 3));
      auto add = [&](Value limit, function_ref<Value(int64_t, Value)> valuesOf) {
        Values q = m.loadQueries(parameters.query, shape.dims, queries, kb.index(row));
        Values scores;
        for (int64_t i = 0; i < steps.operands(); ++i)
          scores.push_back(steps.scores(q, keys[size_t(i)], i, limit));
        return steps.add(state, scores, limit, valuesOf).all();
      };
      auto all = [&] { return add({}, [&](int64_t i, Value) { return values[size_t(i)]; }); };
      auto some = [&] {
        return add(seen[size_t(row)], [&](int64_t i, Value limit) {
          return valueSlot.values(steps.tokenOf(first, i), limit);
        });
      };
      Value whole = kb.atLeast(seen[size_t(row)], kb.index(stepTokens));
      llvm::append_range(next, kb.choose(whole, all, [&] {
        Value sees = kb.less(kb.index(0), seen[size_t(row)]);
        return kb.choose(sees, some, [&] { return state.all(); });
      }));
    }
    return next;
  }

  //===- Sums
  /// Rows whose sums of all warps fit the ring once it is used up.
  int64_t roundRows() const {
    int64_t bytes = warps * attentionHeads * shape.dims * 4;
    return std::clamp<int64_t>(stages * 2 * cache.slotBytes / bytes, 1, tileRows);
  }

  void finish(const Values &states) {
    tile::ViewType type =
        kb.view(m.accBox(shape.dims, warps * roundRows()), kb.f32Type(), tile::Space::Shared);
    for (int64_t first = 0; first < tileRows; first += roundRows()) {
      int64_t rows = std::min(roundRows(), tileRows - first);
      kb.barrier(); // nobody reads the ring, or the rows before, any more
      warpSums.values = tile::RingMemoryOp::create(kb.builder(), type, ring);
      for (int64_t row = 0; row < rows; ++row) {
        AttentionState state =
            AttentionState::of(ValueRange(states).slice(size_t(3 * (first + row)), 3));
        Value slot = kb.add(kb.warpId(), row * warps);
        sums.store(warpSums, slot, kb.index(0), state.values);
        sums.storeRows(warpSums, slot, state.largest, m.rowsMax(state.weights));
      }
      kb.barrier();
      eachRow(first, rows, [&](Value tileRow, Value inRound) { addWarps(tileRow, inRound); });
    }
    if (parts > 1)
      kb.when(kb.less(kb.index(1), used), [&] { meet(); });
  }

  void eachRow(int64_t first, int64_t rows, function_ref<void(Value, Value)> body) {
    Value end = kb.min(kb.index(rows), kb.sub(batch.rows, rowOf(kb.index(first))));
    kb.forLoop(kb.index(0), end, 1, [&](Value row) { body(kb.add(row, first), row); });
  }

  /// The sums of a row's warps: its mean, or where there are more parts what this one leaves.
  void addWarps(Value tileRow, Value inRound) {
    SumsSources from = sums.slots(warpSums, kb.mul(inRound, warps), kb.index(warps), warps);
    auto mean = [&] { sums.merge(from, kb.index(0), 1, meanOf(tileRow)); };
    if (parts == 1)
      return mean();
    kb.when(kb.equal(used, kb.index(1)), mean, [&] {
      Value slot = slotOf(part, tileRow);
      sums.merge(from, kb.index(0), 1,
                 [&](Value group, Value values, Value weights, Value largest) {
                   sums.store(partSums, slot, group, values);
                   kb.when(kb.equal(group, kb.index(0)),
                           [&] { sums.storeRows(partSums, slot, largest, weights); });
                 });
    });
  }

  Value item() { return kb.add(kb.mul(tile, shape.kvHeads), kvHead); }
  Value slotOf(Value part, Value tileRow) {
    Value ofPart = kb.add(kb.mul(item(), parts), part);
    return kb.add(kb.mul(ofPart, tileRows), tileRow);
  }

  /// The part that is done last adds all of them, in their order.
  void meet() {
    Value last = kb.arriveLast(parameters.arrivals, item(), used);
    kb.when(last, [&] {
      eachRow(0, tileRows, [&](Value tileRow, Value) {
        SumsSources from = {[&](Value i) { return std::pair(partSums, slotOf(i, tileRow)); }, used,
                            parts};
        sums.merge(from, kb.index(0), 1, meanOf(tileRow));
      });
    });
  }

  SumsBody meanOf(Value tileRow) {
    return [this, tileRow](Value group, Value values, Value weights, Value) {
      Value mean = steps.mean(values, weights);
      steps.store(mean, parameters.out, queryRow(rowOf(tileRow)), group);
    };
  }

  KernelBuilder &kb;
  MatrixTiles m;
  const CachePages &cache;
  const AttentionShape &shape;
  const int64_t tileRows, warps, stages, parts;
  const CodeProduct product;
  BatchRows batch;
  AttentionSteps steps;
  AttentionSums sums;
  const AttentionParameters parameters;
  SumsView partSums, warpSums;
  SharedPages *pages = nullptr;
  Value ring, table, queries;
  Value part, kvHead, tile, firstRow, begin, count, used;
};

} // namespace

bool sharedAttentionServes(const AttentionShape &shape, m3::CacheType cache, Type query, Type out) {
  return shape.selected && matrixAttentionServes(shape, cache, query, out);
}

LogicalResult emitSharedAttention(StepLowering &step, const CachePages &cache,
                                  const AttentionShape &shape, const Schedule &schedule,
                                  const AttentionOperands &operands) {
  const MatrixUnit &unit = step.chip.matrix;
  const int64_t rows = schedule.at("shared_rows"), parts = schedule.at("parts");
  const int64_t stages = schedule.at("stages"), consumers = schedule.at("consumers");
  if (rows < 1 || stages < 3 || consumers % pageWarps)
    return emitError(step.module.getLoc())
           << "attention with shared_rows=" << rows << ", stages=" << stages
           << ", consumers=" << consumers << ": at least 1, at least 3 and a multiple of "
           << pageWarps << " are needed; change them by --schedule, or attention.shared=0";
  std::optional<PartMemory> memory;
  if (parts > 1)
    memory = {parts * rows, 1, {shape.dims / unit.columns, unit.lanes, 4}};
  return emitPartedAttention(
      step, cache, shape, schedule, operands, memory,
      [&](KernelBuilder &kb, const AttentionParameters &parameters) {
        SharedAttention(kb, parameters, cache, shape, schedule, unit).emit();
      },
      rows);
}

} // namespace m3c::kernel
