#include "passes/kernel/families/selection/IndexTensor.h"

#include "passes/kernel/families/cache/WorkShare.h"

#include <limits>

using namespace mlir;

namespace m3c::kernel {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();
/// Accumulators: one is read while the next one is made.
constexpr int64_t scoreStages = 2;

using tile::Gate;

bool isPair(const Schedule &schedule) { return schedule.at("pair"); }

class TensorScores {
public:
  TensorScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
               const Schedule &schedule)
      : kb(kb), t(kb, productOf(schedule), isPair(schedule)), cache(cache), shape(shape),
        roles(schedule, "score"), columns(schedule.at("columns")),
        stages(schedule.at("tensor_stages")), rawStages(schedule.at("stages")),
        tileRows(columns / shape.heads), allRows(sharesAllRows(schedule)), pages(t.pair ? 2 : 1),
        parts(llvm::divideCeil(schedule.at("parts"), pages)), batch(kb), query(kb.parameter(4)),
        pool(kb.parameter(5)), scores(kb.parameter(6)) {
    kb.kernel().setWarps(uint64_t(roles.warps()));
    if (t.pair)
      kb.kernel().setCluster(uint64_t(pages));
  }

  void emit() {
    queries = kb.alloc({columns / pages, 128}, kb.byteType());
    ring = kb.ring(rawStages, {cache.indexSlotBytes}, kb.byteType(), laneWarps);
    dequantised = t.gates(stages, laneWarps * pages, 1);
    scored = t.gates(scoreStages, 1, laneWarps * pages);
    asked = t.gates(1, pages, 1);
    tops = kb.alloc({2, laneWarps, columns}, kb.f32Type());
    positions = kb.alloc({laneWarps, columns}, kb.i32Type());
    firstRow = kb.mul(kb.blockId(tile::Axis::X), tileRows);
    endRow = allRows ? batch.rows : kb.min(kb.add(firstRow, tileRows), batch.rows);
    part = kb.blockId(tile::Axis::Y);
    rank = kb.clusterRank();
    kb.when(kb.less(firstRow, endRow), [&] {
      memory = t.memory(stages * keyColumns + scoreStages * columns);
      roles.emit(kb, [&] { score(); }, [&] { dequantise(); }, [&] { multiply(); }, [&] { load(); });
      t.free(memory);
    });
  }

private:
  //===- Rows of a tile
  /// Rows of one sequence, which has so many blocks, and this part's steps through them; `use`
  /// numbers its first one, `number` is its own. A step is a page, of a pair of work items a page
  /// each.
  struct Run {
    Value row, end, sequence, least, blocks, begin, count, use, number;
    Value nextFirst; ///< the part that has the next run's first share
  };

  Run runFrom(Value row, Value use, Value number, Value firstPart) {
    Run run{row, {}, kb.loadIndex(batch.sequences, {row}), {}, {}, {}, {}, use, number, {}};
    Value position = batch.position(row);
    // Rows of a sequence follow each other: where they end, the least and the largest position.
    Values found =
        kb.forLoop(kb.add(row, 1), endRow, 1, {kb.add(row, 1), position, position},
                   [&](Value next, ValueRange carried) {
                     Value same = kb.equal(kb.loadIndex(batch.sequences, {next}), run.sequence);
                     Value extends = kb.both(kb.equal(carried[0], next), same);
                     if (allRows) // as many as the columns hold
                       extends = kb.both(extends, kb.less(next, kb.add(row, tileRows)));
                     Value at = batch.position(next);
                     return Values{kb.selectf(extends, kb.add(next, 1), carried[0]),
                                   kb.selectf(extends, kb.min(carried[1], at), carried[1]),
                                   kb.selectf(extends, kb.max(carried[2], at), carried[2])};
                   });
    run.end = found[0];
    run.least = found[1];
    run.blocks = kb.add(kb.div(found[2], m3::blockTokens), 1);
    Value steps = t.pair ? kb.ceilDiv(run.blocks, pages) : run.blocks;
    Value all = kb.index(parts);
    EmittedShare share = emitShare(kb, steps, all, emitShareNumber(kb, all, part, firstPart));
    run.begin = share.begin;
    run.count = kb.sub(share.end, share.begin);
    run.nextFirst = emitNextFirst(kb, all, firstPart, steps);
    return run;
  }

  /// How many steps and runs there were.
  struct Total {
    Value uses, runs;
  };
  Total eachRun(function_ref<void(const Run &)> body) {
    Values end = kb.forLoop(firstRow, endRow, 1, {firstRow, kb.index(0), kb.index(0), kb.index(0)},
                            [&](Value row, ValueRange carried) {
                              return kb.choose(
                                  kb.equal(row, carried[0]),
                                  [&] {
                                    Run run = runFrom(row, carried[1], carried[2], carried[3]);
                                    body(run);
                                    return Values{run.end, kb.add(run.use, run.count),
                                                  kb.add(run.number, 1), run.nextFirst};
                                  },
                                  [&] { return Values(carried.begin(), carried.end()); });
                            });
    return {end[1], end[2]};
  }
  /// The block of this work item in step i of a run. Of a pair the second one may have none in the
  /// last step: then it is one behind the sequence's.
  Value blockOf(const Run &run, Value i) {
    Value step = kb.add(run.begin, i);
    return t.pair ? kb.add(kb.mul(step, pages), rank) : step;
  }
  void eachPage(const Run &run, function_ref<void(Value use, Value i)> body) {
    kb.forLoop(kb.index(0), run.count, 1, [&](Value i) { body(kb.add(run.use, i), i); });
  }

  //===- Roles
  void load() {
    eachRun([&](const Run &run) {
      Value tableRow = kb.mul(run.sequence, batch.tableLength);
      eachPage(run, [&](Value use, Value i) {
        Value block = blockOf(run, i);
        if (t.pair) // it takes a page that nobody asks for
          block = kb.min(block, kb.add(run.blocks, -1));
        Value page = kb.loadIndex(batch.table, {kb.add(tableRow, block)});
        kb.acquire(ring, use);
        kb.fillStage(ring, use, pool, kb.mul(page, cache.pageBytes));
        kb.commit(ring, use);
      });
    });
  }

  void dequantise() {
    Total total = eachRun([&](const Run &run) {
      eachPage(run, [&](Value use, Value) {
        Value stage = kb.wait(ring, use);
        t.wait(Gate::Empty, dequantised, use);
        t.keys(t.slot(stage, 0), keysOf(use));
        kb.release(ring, use);
        t.signal(Gate::Full, dequantised, use);
      });
    });
    // No product may tell of its end where nobody is any more.
    for (int64_t i = 0; i < stages; ++i)
      t.wait(Gate::Empty, dequantised, kb.add(total.uses, i));
  }

  /// Queries of a run take the place of those before it when all their products have ended. Of a
  /// pair each has half of them, and the first multiplies for both.
  void multiply() {
    Total total = eachRun([&](const Run &run) {
      t.wait(Gate::Empty, asked, run.number);
      Value first = kb.mul(run.row, shape.heads);
      if (t.pair)
        first = kb.add(first, kb.mul(rank, columns / pages));
      tile::OperandQueriesOp::create(kb.builder(), query, first, kb.mul(run.end, shape.heads),
                                     queries);
      if (!t.pair)
        return multiplyRun(run);
      t.signal(Gate::Full, asked, run.number, /*alone=*/true);
      kb.when(kb.equal(rank, kb.index(0)), [&] {
        t.wait(Gate::Full, asked, run.number);
        multiplyRun(run);
      });
    });
    t.wait(Gate::Empty, asked, total.runs);
  }

  void multiplyRun(const Run &run) {
    Value never = arith::ConstantIntOp::create(kb.builder(), 0, 1);
    eachPage(run, [&](Value use, Value) {
      t.wait(Gate::Full, dequantised, use);
      t.wait(Gate::Empty, scored, use);
      t.multiply(keysOf(use), queries, sumsOf(use), never);
      t.commit(Gate::Full, scored, use);
      t.commit(Gate::Empty, dequantised, use);
    });
    t.commit(Gate::Empty, asked, run.number);
  }

  Value keysOf(Value use) {
    return t.part(memory, kb.mul(kb.rem(use, stages), keyColumns), keyColumns, kb.i32Type());
  }
  Value sumsOf(Value use) {
    Value column = kb.add(kb.mul(kb.rem(use, scoreStages), columns), stages * keyColumns);
    return t.part(memory, column, columns, kb.f32Type());
  }

  /// A warp has a quarter of the tokens of each page; one after the other stores what all found.
  void score() {
    quarter = kb.rem(kb.warpId(), laneWarps);
    token = t.laneNumbers();
    eachRun([&](const Run &run) {
      storePositions(run);
      eachPage(run, [&](Value use, Value i) {
        Value block = blockOf(run, i);
        t.wait(Gate::Full, scored, use);
        Value sums = t.load(sumsOf(use));
        t.signal(Gate::Empty, scored, use);
        Value start = kb.mul(block, m3::blockTokens);
        Value whole = kb.less(kb.add(start, m3::blockTokens - 1), kb.add(run.least, 1));
        Value kept = kb.choose(
            whole, [&] { return Values{sums}; },
            [&] { return Values{seen(sums, kb.toI32(start))}; })[0];
        storeTop(run, use, block, t.reduce(tile::ReduceKind::MaxOrNan, kept));
      });
    });
  }

  /// Of each column; those behind the run's repeat the last. In memory: few pages are looked at key
  /// by key, and registers are dear.
  void storePositions(const Run &run) {
    Value last = kb.toI32(kb.sub(kb.add(run.end, -1), run.row));
    auto type = kb.tile(1, columns, kb.i32Type());
    Value rows = kb.map(kb.iota(columns), type, [&](ValueRange args) {
      return kb.min(arith::DivSIOp::create(kb.builder(), args[0], kb.i32(shape.heads)), last);
    });
    kb.store(kb.gather(batch.positions, run.row, rows), positions, {quarter, kb.index(0)},
             {1, columns});
  }

  Value seen(Value sums, Value start) {
    Value seenTo = t.loadRow(positions, {quarter, kb.index(0)}, t.row(columns, kb.i32Type()));
    return kb.map({sums, token, seenTo}, t.rows(columns), [&](ValueRange args) {
      Value at = arith::AddIOp::create(kb.builder(), args[1], start);
      return kb.selectf(kb.atLeast(args[2], at), args[0], kb.f32(lowest));
    });
  }

  /// Each use has its own half of the memory: nobody writes a half before it was read, since all
  /// meet in between.
  void storeTop(const Run &run, Value use, Value block, Value top) {
    Value half = kb.rem(use, 2);
    kb.store(top, tops, {half, quarter, kb.index(0)}, {1, 1, columns});
    kb.barrier();
    Value mine = kb.equal(kb.rem(use, laneWarps), quarter);
    if (t.pair)
      mine = kb.both(mine, kb.less(block, run.blocks));
    kb.when(mine, [&] {
      auto of = [&](int64_t warp) {
        return kb.load(tops, {half, kb.index(warp), kb.index(0)}, {1, 1, columns}, 1, columns);
      };
      Value best = of(0);
      for (int64_t warp = 1; warp < laneWarps; ++warp)
        best = kb.map({of(warp), best}, 1, columns,
                      [&](ValueRange args) { return kb.maxOrNan(args[0], args[1]); });
      Value first = kb.mul(run.row, shape.heads);
      tile::StoreColumnsOp::create(
          kb.builder(), best, scores, ValueRange{kb.add(kb.mul(first, batch.tableLength), block)},
          batch.tableLength, kb.mul(kb.sub(run.end, run.row), shape.heads));
    });
  }

  KernelBuilder &kb;
  TensorTiles t;
  const CachePages &cache;
  const IndexShape &shape;
  const TensorRoles roles;
  const int64_t columns, stages, rawStages, tileRows;
  const bool allRows;
  const int64_t pages; ///< of a product, one of each work item
  const int64_t parts; ///< work items, or pairs of them, that share the steps of a tile
  BatchRows batch;
  Value query, pool, scores, queries, ring, dequantised, scored, tops, positions, memory;
  Value asked; ///< queries of a pair are there; they are multiplied
  Value firstRow, endRow, part, rank, quarter, token;
};

} // namespace

bool tensorScoresServe(const IndexShape &shape, m3::CacheType cache, Value query) {
  return shape.heads <= 16 && 16 % shape.heads == 0 && tensorServes(cache, shape.dims, query);
}

void emitTensorScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
                      const Schedule &schedule) {
  TensorScores(kb, cache, shape, schedule).emit();
}

} // namespace m3c::kernel
