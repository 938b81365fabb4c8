#include "passes/kernel/families/attention/matrix/AttentionFlat.h"

#include "passes/kernel/families/attention/FlatRows.h"
#include "passes/kernel/families/attention/matrix/AttentionProducts.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

class FlatAttention {
public:
  FlatAttention(KernelBuilder &kb, const AttentionParameters &parameters, const CachePages &cache,
                const AttentionShape &shape, const Schedule &schedule, const MatrixUnit &unit)
      : kb(kb), m(kb, unit, cache.paired()), cache(cache), shape(shape),
        consumers(schedule.at("consumers")), loaders(loadersOf(schedule)),
        attendRegisters(choiceOf(schedule, "attend_registers")),
        loadRegisters(choiceOf(schedule, "load_registers")), stages(schedule.at("stages")),
        turns(ringTurns(unit, consumers / pageWarps)), batch(kb),
        rows(kb, batch, schedule.at("parts"), shape.selected),
        lists(kb, batch, rows, shape, loaders), meeting(m, consumers),
        products(kb, m, cache, shape, schedule),
        warpsOfRow(kb, m, shape.dims, products.scaleBits(), consumers),
        partsOfRow(kb, m, shape.dims, products.scaleBits(), consumers + loaders),
        slots(kb, batch, rows, schedule, shape.kvHeads), query(parameters.query),
        pool(parameters.pool), selection(parameters.selection), out(parameters.out),
        arrivals(parameters.arrivals), partSums{parameters.partValues, parameters.partRows} {
    kb.kernel().setWarps(uint64_t(consumers + loaders));
  }

  void emit() {
    allocate();
    part = kb.blockId(tile::Axis::X);
    kvHead = kb.blockId(tile::Axis::Y);
    kb.when(kb.less(kb.index(0), batch.rows), [&] {
      kb.when(kb.equal(kb.warpId(), kb.index(0)), [&] { rows.lay(); });
      kb.barrier(); // rows are laid, the ring's barriers are made
      rows.divide(part);
      kb.when(kb.less(rows.begin, rows.end), [&] {
        kb.roles([&] {
          kb.role("attend", {consumers, attendRegisters}, [&] { attend(); });
          kb.role("load", {loaders, loadRegisters}, [&] { loadPages(); });
        });
        addParts();
      });
    });
  }

private:
  void allocate() {
    ring = kb.ring(stages, {2 * cache.slotBytes}, kb.byteType(), pageWarps, turns);
    products.allocate(query);
    lists.allocate();
    warpSums = {kb.alloc(m.accBox(shape.dims, consumers), kb.f32Type()),
                kb.alloc({consumers, 2, 16}, kb.f32Type())};
    rows.allocate();
    meeting.allocate();
  }

  //===- Pages
  /// Role: brings the pages of the stretch, K and V side by side, whatever row they are of. Loaders
  /// take turns.
  void loadPages() {
    loader = loaders == 1 ? kb.index(0) : kb.sub(kb.warpId(), kb.index(consumers));
    Value count = kb.sub(rows.end, rows.begin);
    kb.forLoop(kb.index(0), count, FlatPages::listed, [&](Value use) {
      lists.list(use, kvHead, loader, selection);
      Value stop = kb.min(kb.add(use, FlatPages::listed), count);
      kb.forLoop(kb.add(use, loader), stop, loaders, [&](Value i) { loadPage(i, kb.sub(i, use)); });
    });
  }

  void loadPage(Value use, Value place) {
    Value offset = kb.add(kb.mul(lists.page(loader, place), cache.pageBytes),
                          kb.mul(kvHead, 2 * cache.slotBytes));
    kb.acquire(ring, use);
    kb.fillStage(ring, use, pool, offset);
    kb.commit(ring, use);
  }

  //===- Rows
  Value headOf(Value row) {
    return kb.add(kb.mul(row, shape.heads), kb.mul(kvHead, shape.group()));
  }
  void loadQueries(Value row) { products.loadQueries(headOf(row)); }

  /// Role: one row after the other; a warp takes a quarter of each page of its team.
  void attend() {
    const int64_t teams = consumers / pageWarps;
    Value warp = kb.warpId(), isLast = kb.equal(warp, kb.index(consumers - 1));
    products.fillTable();
    kb.when(isLast, [&] { loadQueries(rows.first); });
    meeting.meet(kb.index(0));
    products.nameTokens();
    Value team = kb.div(warp, pageWarps);
    Value token = kb.mul(kb.rem(warp, pageWarps), stepTokens), before = kb.toI32(token);
    kb.forLoop(rows.first, kb.add(rows.last, 1), 1, [&](Value row) {
      auto [from, to] = rows.ownOf(row);
      Value use = kb.sub(from, rows.begin), end = kb.sub(to, rows.begin);
      // Pages go round the teams, over the rows: the row's first that is of mine.
      Value turn = kb.rem(kb.sub(kb.add(team, teams), kb.rem(use, teams)), teams);
      Values added = kb.forLoop(kb.add(use, turn), end, teams, products.nothing().all(),
                                [&](Value use, ValueRange carried) {
                                  Value stage = kb.wait(ring, use);
                                  Value seen = kb.sub(kb.toI32(lists.seen(use)), before);
                                  Values next = products.added(stage, token, seen, carried);
                                  kb.release(ring, use);
                                  return next;
                                });
      endRow(row, warp, isLast, AttentionState::of(added));
    });
  }

  /// The sums of all warps: the mean, or where others have pages of the row as well, its part.
  void endRow(Value row, Value warp, Value isLast, const AttentionState &state) {
    Value none = kb.index(0), number = kb.mul(kb.sub(row, rows.first), 2);
    warpsOfRow.store(warpSums, warp, none, state.values);
    warpsOfRow.storeRows(warpSums, warp, state.largest, m.rowsMax(state.weights));
    meeting.meet(kb.add(number, 1)); // nobody reads the row's queries any more
    kb.when(kb.both(isLast, kb.less(row, rows.last)), [&] { loadQueries(kb.add(row, 1)); });
    Value shared = rows.isShared(row), slot = slots.own(kvHead, part, row);
    warpsOfRow.merge(warpsOfRow.slots(warpSums, none, kb.index(consumers), consumers), none, 1,
                     [&](Value group, Value values, Value weights, Value largest) {
                       kb.when(
                           shared, [&] { keep(warpsOfRow, slot, group, values, weights, largest); },
                           [&] { storeMean(row, group, values, weights); });
                     });
    meeting.meet(kb.add(number, 2)); // nor the warps' sums
  }

  void storeMean(Value row, Value group, Value values, Value weights) {
    products.store(products.mean(values, weights), out, headOf(row), group);
  }

  void keep(AttentionSums &sums, Value slot, Value group, Value values, Value weights,
            Value largest) {
    sums.store(partSums, slot, group, values);
    kb.when(kb.equal(group, kb.index(0)),
            [&] { sums.storeRows(partSums, slot, largest, weights); });
  }

  /// The first and the last row may have parts elsewhere: who comes last adds them.
  void addParts() {
    slots.eachShared([&](Value row) {
      auto add = [&](Value base, Value count, int64_t most, const SumsBody &body) {
        partsOfRow.merge(partsOfRow.slots(partSums, base, count, most), kb.index(0), 1, body);
      };
      slots.meet(
          kvHead, part, row, arrivals,
          [&](const SlotRun &parts, Value slot) {
            add(parts.base, parts.count, parts.most,
                [&](Value group, Value values, Value weights, Value largest) {
                  keep(partsOfRow, slot, group, values, weights, largest);
                });
          },
          [&](const SlotRun &parts) {
            add(parts.base, parts.count, parts.most,
                [&](Value group, Value values, Value weights, Value) {
                  storeMean(row, group, values, weights);
                });
          });
    });
  }

  KernelBuilder &kb;
  MatrixTiles m;
  const CachePages &cache;
  const AttentionShape &shape;
  const int64_t consumers, loaders, attendRegisters, loadRegisters, stages, turns;
  BatchRows batch;
  FlatRows rows;
  FlatPages lists;
  RoleMeeting meeting;
  AttentionProducts products;
  AttentionSums warpsOfRow, partsOfRow;
  FlatSums slots;
  Value query, pool, selection, out, arrivals;
  SumsView partSums, warpSums;
  Value ring;
  Value part, kvHead, loader;
};

} // namespace

LogicalResult emitFlatAttention(StepLowering &step, const CachePages &cache,
                                const AttentionShape &shape, const Schedule &schedule,
                                const AttentionOperands &operands) {
  const MatrixUnit &unit = step.chip.matrix;
  if (int64_t loaders = loadersOf(schedule); FlatPages::listed % loaders)
    return emitError(step.module.getLoc())
           << "attention with flat=1 and loaders=" << loaders << ": " << FlatPages::listed
           << " pages are listed at a time, so their warps are a divisor of it; take 1, 2 or 4";
  if (failed(checkLoaders(step.module.getLoc(), "attention", schedule, unit,
                          schedule.at("consumers") / pageWarps)))
    return failure();
  PartMemory memory =
      FlatSums::memory(step.rows, schedule, {shape.dims / unit.columns, unit.lanes, 4});
  return emitPartedAttention(
      step, cache, shape, schedule, operands, memory,
      [&](KernelBuilder &kb, const AttentionParameters &parameters) {
        FlatAttention(kb, parameters, cache, shape, schedule, unit).emit();
      },
      /*tileRows=*/step.rows);
}

} // namespace m3c::kernel
