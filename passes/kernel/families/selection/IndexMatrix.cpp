#include "passes/kernel/families/selection/IndexMatrix.h"

#include "passes/kernel/families/cache/WorkShare.h"

#include <limits>

using namespace mlir;

namespace m3c::kernel {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();
/// Numbers that a warp keeps, one in a lane.
constexpr int64_t lanes = 32;
/// Keys of a left operand.
constexpr int64_t keyRows = 16;

class MatrixScores {
public:
  MatrixScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
               const Schedule &schedule, const MatrixUnit &unit)
      : kb(kb), m(kb, unit), cache(cache), shape(shape), groupColumns(unit.columns),
        groups(schedule.at("columns") / groupColumns), consumers(schedule.at("consumers")),
        loaders(loadersOf(schedule)), scoreRegisters(choiceOf(schedule, "score_registers")),
        loadRegisters(choiceOf(schedule, "load_registers")), product(productOf(schedule)),
        stages(schedule.at("stages")), turns(ringTurns(unit, consumers)),
        allRows(sharesAllRows(schedule)), tileRows(matrixScoreRows(shape, unit)),
        partsOfNarrow(schedule.at("parts")), batch(kb), query(kb.parameter(4)),
        pool(kb.parameter(5)), scores(kb.parameter(6)) {
    kb.kernel().setWarps(uint64_t(consumers + loaders));
  }

  void emit() {
    ring = kb.ring(stages, {cache.indexSlotBytes}, kb.byteType(), 1, turns);
    if (cache.paired() && product == CodeProduct::Table)
      table = kb.alloc({256, 8}, kb.byteType());
    pages = kb.alloc({loaders, lanes}, kb.i32Type());
    chooseRows();
    kb.when(kb.less(firstRow, endRow), [&] {
      if (!allRows)
        readRows();
      kb.barrier(); // the ring's barriers are made
      kb.roles([&] {
        kb.role("score", {consumers, scoreRegisters}, [&] { score(); });
        kb.role("load", {loaders, loadRegisters}, [&] { load(); });
      });
    });
  }

private:
  //===- Rows of a tile
  /// A narrow tile has as many rows as fill one group of columns. Where all rows of as many narrow
  /// tiles as there are groups are of one sequence, their work items take all these rows and share
  /// the blocks instead: a page is then dequantised once for all groups.
  void chooseRows() {
    if (allRows) {
      firstRow = kb.index(0), endRow = batch.rows;
      part = kb.blockId(tile::Axis::Y), parts = kb.index(partsOfNarrow);
      return;
    }
    Value narrow = kb.blockId(tile::Axis::X), part0 = kb.blockId(tile::Axis::Y);
    Value first = kb.mul(narrow, tileRows);
    Value narrowEnd = kb.min(kb.add(first, tileRows), batch.rows);
    Value parts0 = kb.index(partsOfNarrow);
    if (groups == 1) {
      firstRow = first, endRow = narrowEnd, part = part0, parts = parts0;
      return;
    }
    Value inWide = kb.rem(narrow, groups), wide = kb.sub(first, kb.mul(inWide, tileRows));
    Value wideEnd = kb.add(wide, groups * tileRows);
    // A batch may have no row.
    Value newest = kb.max(kb.add(kb.min(wideEnd, batch.rows), -1), kb.index(0));
    Value same = kb.equal(kb.loadIndex(batch.sequences, {kb.min(wide, newest)}),
                          kb.loadIndex(batch.sequences, {newest}));
    Value isWide = kb.both(same, kb.atLeast(batch.rows, wideEnd));
    firstRow = kb.selectf(isWide, wide, first);
    endRow = kb.selectf(isWide, wideEnd, narrowEnd);
    part = kb.selectf(isWide, kb.add(kb.mul(part0, groups), inWide), part0);
    parts = kb.selectf(isWide, kb.mul(parts0, groups), parts0);
  }

  tile::TileType numbers() { return kb.tile(1, lanes, kb.i32Type()); }

  /// Sequences and positions of the tile's rows, one in each lane; lanes behind repeat the last.
  void readRows() {
    Value most = kb.toI32(kb.sub(kb.add(endRow, -1), firstRow));
    Value inside =
        kb.map(kb.iota(lanes), numbers(), [&](ValueRange args) { return kb.min(args[0], most); });
    sequences = kb.gather(batch.sequences, firstRow, inside);
    positions = kb.gather(batch.positions, firstRow, inside);
  }

  /// Rows of one sequence, and this part's blocks of it; `use` numbers its first page.
  struct Run {
    Value row, end, sequence, least, begin, count, use;
    Value nextFirst; ///< the part that has the next run's first share
  };

  /// The largest of what `of` gives for the lanes.
  Value largest(function_ref<Value(Value lane, Value sequence, Value position)> of) {
    Value picked = kb.map({kb.iota(lanes), sequences, positions}, numbers(),
                          [&](ValueRange args) { return of(args[0], args[1], args[2]); });
    Value top = kb.extract(kb.reduce(tile::ReduceKind::Max, picked), 0, 0);
    return kb.toIndex(top);
  }

  Run runFrom(Value row, Value use, Value firstPart) {
    if (allRows)
      readRows();
    Run run;
    run.row = row;
    run.use = use;
    run.sequence = kb.loadIndex(batch.sequences, {row});
    Value own = kb.toI32(run.sequence), first = kb.toI32(kb.sub(row, firstRow));
    Value rows = kb.toI32(kb.sub(endRow, firstRow)), none = kb.i32(INT32_MIN);
    auto negative = [&](Value x) { return kb.sub(kb.i32(0), x); };
    // The first lane behind whose row is of another sequence.
    Value past = largest([&](Value lane, Value sequence, Value) {
      Value same = kb.both(kb.equal(sequence, own), kb.less(lane, rows));
      return kb.selectf(kb.either(kb.less(lane, first), same), none, negative(lane));
    });
    Value length = kb.sub(endRow, firstRow);
    run.end = kb.add(firstRow, kb.selectf(kb.less(past, kb.index(-lanes)), length,
                                          kb.min(kb.sub(kb.index(0), past), length)));
    if (allRows) // as many as the columns hold
      run.end = kb.min(run.end, kb.add(row, groups * tileRows));
    Value last = kb.toI32(kb.sub(run.end, firstRow));
    auto inRun = [&](Value lane) { return kb.both(kb.atLeast(lane, first), kb.less(lane, last)); };
    Value most = largest(
        [&](Value lane, Value, Value position) { return kb.selectf(inRun(lane), position, none); });
    run.least = kb.sub(kb.index(0), largest([&](Value lane, Value, Value position) {
                         return kb.selectf(inRun(lane), negative(position), none);
                       }));
    Value blocks = kb.add(kb.div(most, m3::blockTokens), 1);
    EmittedShare share = emitShare(kb, blocks, parts, emitShareNumber(kb, parts, part, firstPart));
    run.begin = share.begin;
    run.count = kb.sub(share.end, share.begin);
    run.nextFirst = emitNextFirst(kb, parts, firstPart, blocks);
    return run;
  }

  void eachRun(function_ref<void(const Run &)> body) {
    if (allRows)
      return eachRunOfAll(body);
    Values start = {kb.index(0), kb.index(0)};
    kb.forLoop(firstRow, endRow, 1, start, [&](Value row, ValueRange carried) {
      Value before = kb.max(kb.add(row, -1), firstRow);
      Value same =
          kb.equal(kb.loadIndex(batch.sequences, {row}), kb.loadIndex(batch.sequences, {before}));
      Value follows = kb.both(same, kb.less(firstRow, row));
      return kb.choose(
          follows, [&] { return Values(carried.begin(), carried.end()); },
          [&] {
            Run run = runFrom(row, carried[0], carried[1]);
            body(run);
            return Values{kb.add(run.use, run.count), run.nextFirst};
          });
    });
  }

  /// What the batch says is read again for each run: kept over the products it would cost them
  /// registers, which four groups of columns do not leave on every chip.
  void eachRunOfAll(function_ref<void(const Run &)> body) {
    Values start = {firstRow, kb.index(0), kb.index(0)};
    kb.forLoop(firstRow, kb.index(lanes), 1, start, [&](Value row, ValueRange carried) {
      endRow = kb.loadIndex(batch.counts, {kb.index(0)});
      return kb.choose(
          kb.both(kb.equal(row, carried[0]), kb.less(row, endRow)),
          [&] {
            Run run = runFrom(row, carried[1], carried[2]);
            Values next = {run.end, kb.add(run.use, run.count), run.nextFirst};
            body(run);
            return next;
          },
          [&] { return Values(carried.begin(), carried.end()); });
    });
  }

  //===- Roles
  void load() {
    m.comeToBarrierOfOthers();
    Value loader = loaders == 1 ? kb.index(0) : kb.sub(kb.warpId(), kb.index(consumers));
    eachRun([&](const Run &run) {
      Value tableRow = kb.mul(run.sequence, batch.tableLength), mine = loader;
      if (loaders > 1) // uses go round the loaders, over the runs
        mine = kb.rem(kb.sub(kb.add(loader, loaders), kb.rem(run.use, loaders)), loaders);
      kb.forLoop(kb.index(0), run.count, lanes, [&](Value first) {
        Value from = kb.toI32(kb.add(run.begin, first));
        Value last = kb.toI32(kb.add(kb.add(run.begin, run.count), -1));
        Value blocks = kb.map(kb.iota(lanes), numbers(), [&](ValueRange args) {
          return kb.min(arith::AddIOp::create(kb.builder(), args[0], from), last);
        });
        kb.store(kb.gather(batch.table, tableRow, blocks), pages, {loader, kb.index(0)},
                 {1, lanes});
        Value stop = kb.min(kb.add(first, lanes), run.count);
        kb.forLoop(kb.add(first, mine), stop, loaders, [&](Value i) {
          Value page = kb.loadIndex(pages, {loader, kb.sub(i, first)}), use = kb.add(run.use, i);
          kb.acquire(ring, use);
          kb.fillStage(ring, use, pool, kb.mul(page, cache.pageBytes));
          kb.commit(ring, use);
        });
      });
    });
  }

  void score() {
    if (table)
      tile::CodeTableOp::create(kb.builder(), table);
    m.barrierOfRole();
    token = m.iota(m.rows(kb.i32Type()));
    eachRun([&](const Run &run) {
      // Pages go round the warps, over the runs: the first of this run that is mine.
      Value mine =
          kb.rem(kb.sub(kb.add(kb.warpId(), consumers), kb.rem(run.use, consumers)), consumers);
      kb.when(kb.less(mine, run.count), [&] {
        Queries queries = loadQueries(run);
        kb.forLoop(mine, run.count, consumers, [&](Value i) { scorePage(run, queries, i); });
      });
    });
  }

  struct Queries {
    Value columns; ///< rows · heads
    Values operands, positions;
  };

  Queries loadQueries(const Run &run) {
    Queries queries;
    Value first = kb.mul(run.row, shape.heads);
    queries.columns = kb.mul(kb.sub(run.end, run.row), shape.heads);
    for (int64_t g = 0; g < groups; ++g) {
      int64_t column = g * groupColumns;
      auto operand = m.keys(shape.dims, groupColumns);
      auto load = [&] {
        Value row = kb.add(first, column), limit = kb.add(first, queries.columns);
        if (byGroups())
          return Values{tile::LoadGroupsOp::create(kb.builder(), operand, query,
                                                   ValueRange{row, kb.index(0)}, limit)};
        return Values{m.loadRight(query, row, shape.dims, groupColumns, limit)};
      };
      queries.operands.push_back(g == 0 ? load()[0] : kb.choose(used(queries, g), load, [&] {
        return Values{m.fill(0, operand)};
      })[0]);
      queries.positions.push_back(positionsOf(run, column));
    }
    return queries;
  }

  Value used(const Queries &queries, int64_t group) {
    return kb.less(kb.index(group * groupColumns), queries.columns);
  }

  Value positionsOf(const Run &run, int64_t column) {
    auto type = m.columns(groupColumns, kb.i32Type());
    Value last = kb.toI32(kb.sub(kb.add(run.end, -1), run.row));
    Value rows = kb.map(m.iota(type), type, [&](ValueRange args) {
      Value at = arith::AddIOp::create(kb.builder(), args[0], kb.i32(column));
      return kb.min(arith::DivSIOp::create(kb.builder(), at, kb.i32(shape.heads)), last);
    });
    return kb.gather(batch.positions, run.row, rows);
  }

  void scorePage(const Run &run, const Queries &queries, Value i) {
    Value use = kb.add(run.use, i), block = kb.add(run.begin, i);
    Value stage = kb.wait(ring, use), start = kb.mul(block, m3::blockTokens);
    Value whole = kb.less(kb.add(start, m3::blockTokens - 1), kb.add(run.least, 1));
    auto scored = [&](int64_t count) {
      return kb.choose(
          whole, [&] { return scoreTokens(queries, stage, {}, count); },
          [&] { return scoreTokens(queries, stage, start, count); });
    };
    Values best = groups == 1 ? scored(1)
                              : kb.choose(
                                    used(queries, 1), [&] { return scored(groups); },
                                    [&] {
                                      Values one = scored(1);
                                      one.resize(size_t(groups), m.fill(lowest, accumulator()));
                                      return one;
                                    });
    kb.release(ring, use);
    Value tableLength = allRows ? kb.loadIndex(batch.counts, {kb.index(3)}) : batch.tableLength;
    for (int64_t g = 0; g < groups; ++g) {
      Value column = kb.index(g * groupColumns);
      Value at = kb.add(kb.mul(kb.add(kb.mul(run.row, shape.heads), column), tableLength), block);
      tile::StoreColumnsOp::create(kb.builder(), m.columnsMax(best[size_t(g)]), scores,
                                   ValueRange{at}, tableLength, kb.sub(queries.columns, column));
    }
  }

  /// The largest scores of a page's rows of the operand, column by column; with `start`, its first
  /// position, only of keys that a column may see.
  Values scoreTokens(const Queries &queries, Value stage, Value start, int64_t count) {
    StagedSlot slot(m, cache, shape.dims, stage, 0, product, table);
    Values none(size_t(count), m.fill(lowest, accumulator()));
    return kb.forLoop(
        kb.index(0), kb.index(m3::blockTokens), keyRows, none,
        [&](Value first, ValueRange carried) {
          Value keys = byGroups() ? Value() : slot.keyRows(first);
          Values best;
          for (int64_t g = 0; g < count; ++g) {
            Value before = carried[size_t(g)];
            auto better = [&] {
              Value operand = queries.operands[size_t(g)];
              Value dots =
                  byGroups() ? slot.scores(first, operand) : m.mma(keys, operand, groupColumns);
              return Values{larger(dots, before, start ? kb.add(start, first) : Value(),
                                   queries.positions[size_t(g)])};
            };
            best.push_back(g == 0 ? better()[0] : kb.choose(used(queries, g), better, [&] {
              return Values{before};
            })[0]);
          }
          return best;
        });
  }

  tile::TileType accumulator() { return m.acc(groupColumns); }
  bool byGroups() const { return cache.paired() && product == CodeProduct::Groups; }

  Value larger(Value dots, Value before, Value start, Value position) {
    auto type = accumulator();
    if (!start)
      return kb.map({dots, before}, type,
                    [&](ValueRange args) { return kb.maxOrNan(args[0], args[1]); });
    Value first = kb.toI32(start);
    return kb.map({dots, before, token, position}, type, [&](ValueRange args) {
      Value at = arith::AddIOp::create(kb.builder(), args[2], first);
      return kb.selectf(kb.atLeast(args[3], at), kb.maxOrNan(args[0], args[1]), args[1]);
    });
  }

  KernelBuilder &kb;
  MatrixTiles m;
  const CachePages &cache;
  const IndexShape &shape;
  const int64_t groupColumns; ///< of one accumulator; a tile has several where rows share pages
  const int64_t groups, consumers, loaders, scoreRegisters, loadRegisters;
  const CodeProduct product;
  const int64_t stages, turns;
  const bool allRows;
  const int64_t tileRows, partsOfNarrow;
  BatchRows batch;
  Value query, pool, scores, ring, table, pages;
  Value firstRow, endRow, part, parts, sequences, positions, token;
};

} // namespace

bool sharesAllRows(const Schedule &schedule) { return choiceOf(schedule, "all_rows"); }

LogicalResult checkScoreColumns(Location location, const IndexShape &shape, int64_t stepRows,
                                const Schedule &schedule, const MatrixUnit &unit) {
  int64_t columns = schedule.at("columns");
  if (sharesAllRows(schedule) && stepRows > lanes)
    return emitError(location) << "index_score with all_rows=1 in a step of " << stepRows
                               << " rows: a warp numbers up to " << lanes;
  if (schedule.count("tensor_stages")) {
    if (columns == 16 || columns == 32)
      return success();
    return emitError(location) << "index_score with columns=" << columns
                               << ": products in tensor memory have 16 or 32";
  }
  const int64_t rows = matrixScoreRows(shape, unit), most = lanes / rows * unit.columns;
  if (columns % unit.columns == 0 && columns <= most)
    return success();
  return emitError(location) << "index_score with columns=" << columns << ": a multiple of "
                             << unit.columns << " up to " << most
                             << " is needed, whose rows one warp numbers";
}

int64_t matrixScoreRows(const IndexShape &shape, const MatrixUnit &unit) {
  return unit.columns / shape.heads;
}

void emitMatrixScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
                      const Schedule &schedule, const MatrixUnit &unit) {
  MatrixScores(kb, cache, shape, schedule, unit).emit();
}

} // namespace m3c::kernel
