#include "passes/kernel/families/tensor/IndexTensor.h"

#include "passes/kernel/WorkShare.h"

#include <limits>

using namespace mlir;

namespace m3c::kernel {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();
/// Accumulators: one is read while the next one is made.
constexpr int64_t scoreStages = 2;

using tile::Gate;

class TensorScores {
public:
  TensorScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
               const Schedule &schedule)
      : kb(kb), t(kb, productOf(schedule)), cache(cache), shape(shape), roles(schedule, "score"),
        columns(schedule.at("columns")), stages(schedule.at("tensor_stages")),
        rawStages(schedule.at("stages")), tileRows(columns / shape.heads),
        parts(schedule.at("parts")), batch(kb), query(kb.parameter(4)), pool(kb.parameter(5)),
        scores(kb.parameter(6)) {
    kb.kernel().setWarps(uint64_t(roles.warps()));
  }

  void emit() {
    queries = kb.alloc({columns, 128}, kb.byteType());
    ring = kb.ring(rawStages, {cache.indexSlotBytes}, kb.byteType(), laneWarps);
    dequantised = t.gates(stages, laneWarps, 1);
    scored = t.gates(scoreStages, 1, laneWarps);
    multiplied = t.gates(1, 1, 1);
    tops = kb.alloc({2, laneWarps, columns}, kb.f32Type());
    positions = kb.alloc({laneWarps, columns}, kb.i32Type());
    firstRow = kb.mul(kb.blockId(tile::Axis::X), tileRows);
    endRow = kb.min(kb.add(firstRow, tileRows), batch.rows);
    part = kb.blockId(tile::Axis::Y);
    kb.when(kb.less(firstRow, endRow), [&] {
      memory = t.memory(stages * keyColumns + scoreStages * columns);
      roles.emit(kb, [&] { score(); }, [&] { dequantise(); }, [&] { multiply(); }, [&] { load(); });
      t.free(memory);
    });
  }

private:
  //===- Rows of a tile
  /// Rows of one sequence, and this part's blocks of it; `use` numbers its first page, `number` is
  /// its own.
  struct Run {
    Value row, end, sequence, least, begin, count, use, number;
    Value nextFirst; ///< the part that has the next run's first share
  };

  Run runFrom(Value row, Value use, Value number, Value firstPart) {
    Run run{row, {}, kb.loadIndex(batch.sequences, {row}), {}, {}, {}, use, number, {}};
    Value position = batch.position(row);
    // Rows of a sequence follow each other: where they end, the least and the largest position.
    Values found =
        kb.forLoop(kb.add(row, 1), endRow, 1, {kb.add(row, 1), position, position},
                   [&](Value next, ValueRange carried) {
                     Value same = kb.equal(kb.loadIndex(batch.sequences, {next}), run.sequence);
                     Value extends = kb.both(kb.equal(carried[0], next), same);
                     Value at = batch.position(next);
                     return Values{kb.selectf(extends, kb.add(next, 1), carried[0]),
                                   kb.selectf(extends, kb.min(carried[1], at), carried[1]),
                                   kb.selectf(extends, kb.max(carried[2], at), carried[2])};
                   });
    run.end = found[0];
    run.least = found[1];
    Value blocks = kb.add(kb.div(found[2], m3::blockTokens), 1);
    Value all = kb.index(parts);
    EmittedShare share = emitShare(kb, blocks, all, emitShareNumber(kb, all, part, firstPart));
    run.begin = share.begin;
    run.count = kb.sub(share.end, share.begin);
    run.nextFirst = emitNextFirst(kb, all, firstPart, blocks);
    return run;
  }

  void eachRun(function_ref<void(const Run &)> body) {
    kb.forLoop(firstRow, endRow, 1, {firstRow, kb.index(0), kb.index(0), kb.index(0)},
               [&](Value row, ValueRange carried) {
                 return kb.choose(
                     kb.equal(row, carried[0]),
                     [&] {
                       Run run = runFrom(row, carried[1], carried[2], carried[3]);
                       body(run);
                       return Values{run.end, kb.add(run.use, run.count), kb.add(run.number, 1),
                                     run.nextFirst};
                     },
                     [&] { return Values(carried.begin(), carried.end()); });
               });
  }
  void eachPage(const Run &run, function_ref<void(Value use, Value i)> body) {
    kb.forLoop(kb.index(0), run.count, 1, [&](Value i) { body(kb.add(run.use, i), i); });
  }

  //===- Roles
  void load() {
    eachRun([&](const Run &run) {
      Value tableRow = kb.mul(run.sequence, batch.tableLength);
      eachPage(run, [&](Value use, Value i) {
        Value block = kb.add(run.begin, i);
        Value page = kb.loadIndex(batch.table, {kb.add(tableRow, block)});
        kb.acquire(ring, use);
        kb.fillStage(ring, use, pool, kb.mul(page, cache.pageBytes));
        kb.commit(ring, use);
      });
    });
  }

  void dequantise() {
    eachRun([&](const Run &run) {
      eachPage(run, [&](Value use, Value) {
        Value stage = kb.wait(ring, use);
        t.wait(Gate::Empty, dequantised, use);
        t.keys(t.slot(stage, 0), keysOf(use));
        kb.release(ring, use);
        t.signal(Gate::Full, dequantised, use);
      });
    });
  }

  /// Queries of a run take the place of those before it when all their products have ended.
  void multiply() {
    Value never = arith::ConstantIntOp::create(kb.builder(), 0, 1);
    eachRun([&](const Run &run) {
      kb.when(kb.less(kb.index(0), run.number),
              [&] { t.wait(Gate::Full, multiplied, kb.add(run.number, -1)); });
      tile::OperandQueriesOp::create(kb.builder(), query, kb.mul(run.row, shape.heads),
                                     kb.mul(run.end, shape.heads), queries);
      eachPage(run, [&](Value use, Value) {
        t.wait(Gate::Full, dequantised, use);
        t.wait(Gate::Empty, scored, use);
        t.multiply(keysOf(use), queries, sumsOf(use), never);
        t.commit(Gate::Full, scored, use);
        t.commit(Gate::Empty, dequantised, use);
      });
      t.commit(Gate::Full, multiplied, run.number);
    });
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
      Value seenTo = positionsOf(run);
      eachPage(run, [&](Value use, Value i) {
        Value block = kb.add(run.begin, i);
        t.wait(Gate::Full, scored, use);
        Value sums = t.load(sumsOf(use));
        t.signal(Gate::Empty, scored, use);
        Value start = kb.mul(block, m3::blockTokens);
        Value whole = kb.less(kb.add(start, m3::blockTokens - 1), kb.add(run.least, 1));
        Value kept = kb.choose(
            whole, [&] { return Values{sums}; },
            [&] { return Values{seen(sums, kb.toI32(start), seenTo)}; })[0];
        storeTop(run, use, block, t.reduce(tile::ReduceKind::MaxOrNan, kept));
      });
    });
  }

  /// Of each column; those behind the run's repeat the last.
  Value positionsOf(const Run &run) {
    Value last = kb.toI32(kb.sub(kb.add(run.end, -1), run.row));
    auto type = kb.tile(1, columns, kb.i32Type());
    Value rows = kb.map(kb.iota(columns), type, [&](ValueRange args) {
      return kb.min(arith::DivSIOp::create(kb.builder(), args[0], kb.i32(shape.heads)), last);
    });
    kb.store(kb.gather(batch.positions, run.row, rows), positions, {quarter, kb.index(0)},
             {1, columns});
    return t.loadRow(positions, {quarter, kb.index(0)}, t.row(columns, kb.i32Type()));
  }

  Value seen(Value sums, Value start, Value seenTo) {
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
    kb.when(kb.equal(kb.rem(use, laneWarps), quarter), [&] {
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
  const int64_t columns, stages, rawStages, tileRows, parts;
  BatchRows batch;
  Value query, pool, scores, queries, ring, dequantised, scored, multiplied, tops, positions,
      memory;
  Value firstRow, endRow, part, quarter, token;
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
