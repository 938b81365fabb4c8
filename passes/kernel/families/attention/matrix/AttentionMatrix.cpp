#include "passes/kernel/families/attention/matrix/AttentionMatrix.h"

#include "passes/kernel/families/attention/matrix/AttentionFlat.h"
#include "passes/kernel/families/attention/matrix/AttentionProducts.h"
#include "passes/kernel/families/cache/WorkShare.h"
#include "passes/kernel/products/Product.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

/// Pages that a warp has at hand, one in a lane.
constexpr int64_t lanes = 32;
/// Whether the parts of a row are a cluster, which adds their sums in its shared memory.
bool meets(const Schedule &schedule) { return isOn(schedule, "meet") && schedule.at("parts") > 1; }

/// Groups of parts whose sums are added first; none where one work item adds all parts.
int64_t groupsOf(int64_t parts, int64_t fan) {
  return parts > fan ? llvm::divideCeil(parts, fan) : 0;
}

class MatrixAttention {
public:
  MatrixAttention(KernelBuilder &kb, const AttentionParameters &parameters, const CachePages &cache,
                  const AttentionShape &shape, const Schedule &schedule, const MatrixUnit &unit)
      : kb(kb), m(kb, unit, cache.paired()), cache(cache), shape(shape),
        consumers(schedule.at("consumers")), loaders(loadersOf(schedule)),
        attendRegisters(choiceOf(schedule, "attend_registers")),
        loadRegisters(choiceOf(schedule, "load_registers")), stages(schedule.at("stages")),
        turns(ringTurns(unit, consumers / pageWarps)), parts(schedule.at("parts")),
        fan(fanOf(schedule)), cluster(meets(schedule)), batch(kb),
        products(kb, m, cache, shape, schedule),
        mergers(parts == 1 ? consumers : consumers + loaders),
        sums(kb, m, shape.dims, products.scaleBits(), mergers), query(parameters.query),
        pool(parameters.pool), selection(parameters.selection), out(parameters.out),
        arrivals(parameters.arrivals), partSums{parameters.partValues, parameters.partRows} {
    kb.kernel().setWarps(uint64_t(consumers + loaders));
    if (cluster)
      kb.kernel().setCluster(uint64_t(parts));
  }

  void emit() {
    allocate();
    part = cluster ? kb.clusterRank() : kb.blockId(tile::Axis::X);
    kvHead = kb.blockId(tile::Axis::Y);
    row = kb.blockId(tile::Axis::Z);
    // All that is known by the row alone is read at once: each of these reads takes long.
    position = batch.position(row);
    Value sequence = kb.loadIndex(batch.sequences, {row});
    tableRow = kb.mul(sequence, batch.tableLength);
    readSelection();
    kb.when(kb.less(row, batch.rows), [&] {
      divide();
      kb.barrier();              // the ring's barriers are made
      if (cluster || parts == 1) // all of a cluster meet
        return work();
      kb.when(kb.less(part, used), [&] { work(); });
    });
  }

private:
  void work() {
    kb.roles([&] {
      kb.role("attend", {consumers, attendRegisters}, [&] { attend(); });
      kb.role("load", {loaders, loadRegisters}, [&] { loadPages(); });
    });
    kb.barrier();
    finish();
  }

  void allocate() {
    ring = kb.ring(stages, {2 * cache.slotBytes}, kb.byteType(), pageWarps, turns);
    products.allocate(query);
    pages = kb.alloc({loaders, lanes}, kb.i32Type());
    if (shape.selected)
      seenKeys = kb.alloc({loaders, lanes}, kb.i32Type());
    warpSums = {Value(), kb.alloc({consumers, 2, 16}, kb.f32Type())};
    if (cluster)
      partSums = {kb.alloc(m.accBox(shape.dims, 1), kb.f32Type()),
                  kb.alloc({1, 2, 16}, kb.f32Type())};
  }

  //===- The pages of a part
  Type numbers() { return kb.tile(1, lanes, kb.i32Type()); }

  void readSelection() {
    if (!selection)
      return;
    Value at = kb.mul(kb.add(kb.mul(row, shape.kvHeads), kvHead), shape.selected);
    listed = loadChoices(kb, selection, at, shape.selected);
  }

  /// begin … end − 1: this part's places in the row's list of pages.
  void divide() {
    Value count = kb.add(kb.div(position, m3::blockTokens), 1);
    if (selection)
      count = countChoices(kb, listed, shape.selected);
    if (parts == 1) { // plain numbers leave registers to the products
      begin = kb.index(0);
      end = count;
      used = kb.index(1);
      return;
    }
    EmittedShare share = emitShare(kb, count, kb.index(parts), part);
    begin = share.begin;
    end = share.end;
    // A row without pages has one part with nothing in it.
    used = kb.max(emitUsedParts(kb, count, kb.index(parts)), kb.index(1));
  }

  /// Role: brings pages, K and V side by side, in the order of the list. Loaders take turns.
  void loadPages() {
    m.comeToBarrierOfOthers();
    loader = loaders == 1 ? kb.index(0) : kb.sub(kb.warpId(), kb.index(consumers));
    bringPages(kb.max(kb.sub(end, begin), kb.index(0)));
    m.comeToBarrierOfOthers();
  }

  void bringPages(Value count) {
    Values own = {loader, kb.index(0)};
    if (selection) {
      auto type = cast<tile::TileType>(numbers());
      Value blocks =
          kb.map(listed, type, [&](ValueRange args) { return kb.max(args[0], kb.i32(0)); });
      kb.store(kb.gather(batch.table, tableRow, blocks), pages, own, {1, lanes});
      Value past = kb.toI32(kb.add(position, 1));
      Value seen = kb.map(blocks, type, [&](ValueRange args) {
        Value before = arith::MulIOp::create(kb.builder(), args[0], kb.i32(m3::blockTokens));
        return kb.sub(past, before);
      });
      kb.store(seen, seenKeys, own, {1, lanes});
      kb.forLoop(loader, count, loaders, [&](Value i) { loadPage(i, kb.add(begin, i)); });
      return;
    }
    kb.forLoop(kb.index(0), count, lanes, [&](Value first) {
      Value last = kb.toI32(kb.add(end, -1)), from = kb.toI32(kb.add(begin, first));
      Value blocks = kb.map(kb.iota(lanes), cast<tile::TileType>(numbers()), [&](ValueRange args) {
        return kb.min(arith::AddIOp::create(kb.builder(), args[0], from), last);
      });
      kb.store(kb.gather(batch.table, tableRow, blocks), pages, own, {1, lanes});
      Value stop = kb.min(kb.add(first, lanes), count);
      kb.forLoop(kb.add(first, loader), stop, loaders,
                 [&](Value i) { loadPage(i, kb.sub(i, first)); });
    });
  }

  void loadPage(Value use, Value place) {
    Value offset = kb.add(kb.mul(kb.loadIndex(pages, {loader, place}), cache.pageBytes),
                          kb.mul(kvHead, 2 * cache.slotBytes));
    kb.acquire(ring, use);
    kb.fillStage(ring, use, pool, offset);
    kb.commit(ring, use);
  }

  //===- Products
  /// Role: a warp takes a quarter of each page of its team.
  void attend() {
    prepare();
    Value warp = kb.warpId();
    Value first = kb.mul(kb.rem(warp, pageWarps), stepTokens), before = kb.toI32(first);
    AttentionState start = products.nothing();
    const int64_t teams = consumers / pageWarps;
    Value team = teams == 1 ? kb.index(0) : kb.div(warp, pageWarps);
    Values added = kb.forLoop(team, kb.sub(end, begin), teams, start.all(),
                              [&](Value use, ValueRange carried) {
                                Value stage = kb.wait(ring, use);
                                Value seen = kb.sub(seenOf(use), before);
                                Values next = products.added(stage, first, seen, carried);
                                kb.release(ring, use);
                                return next;
                              });
    m.barrierOfRole(); // nobody reads the ring any more
    Value values = tile::RingMemoryOp::create(kb.builder(), sumsType(consumers), ring);
    auto state = AttentionState::of(added);
    sums.store({values, warpSums.rows}, warp, kb.index(0), state.values);
    sums.storeRows(warpSums, warp, state.largest, m.rowsMax(state.weights));
  }

  void prepare() {
    products.fillTable();
    kb.when(kb.equal(kb.warpId(), kb.index(0)), [&] { products.loadQueries(queryRow()); });
    m.barrierOfRole();
    products.nameTokens();
  }

  /// How many keys of the use's page the row may see, an i32: 128 or more, all of them.
  Value seenOf(Value use) {
    Value place = kb.add(begin, use);
    if (selection) // what the loader of this page has stored
      return kb.loadScalar(seenKeys, {loaders == 1 ? kb.index(0) : kb.rem(use, loaders), place},
                           kb.i32Type());
    return kb.toI32(kb.sub(kb.add(position, 1), kb.mul(place, m3::blockTokens)));
  }

  //===- Sums
  tile::ViewType sumsType(int64_t slots) {
    return kb.view(m.accBox(shape.dims, slots), kb.f32Type(), tile::Space::Shared);
  }
  Value queryRow() { return kb.add(kb.mul(row, shape.heads), kb.mul(kvHead, shape.group())); }

  /// Where rows have one part loaders take none in it: they wait at a barrier while consumers meet
  /// at others, which some checkers of races take for one another.
  void merge(const SumsSources &from, Value sharer, int64_t sharers, const SumsBody &body) {
    auto merged = [&] { sums.merge(from, sharer, sharers, body); };
    if (mergers != consumers || consumers * sums.columns() >= shape.dims)
      return merged(); // all warps do, or the consumers have all columns in one round
    kb.when(kb.less(kb.warpId(), kb.index(consumers)), merged);
  }

  void storeMean(Value group, Value values, Value weights) {
    Value mean = products.mean(values, weights);
    products.store(mean, out, queryRow(), group);
  }

  void finish() {
    warpSums.values = tile::RingMemoryOp::create(kb.builder(), sumsType(consumers), ring);
    SumsSources warps = sums.slots(warpSums, kb.index(0), kb.index(consumers), consumers);
    SumsBody mean = [&](Value group, Value values, Value weights, Value) {
      storeMean(group, values, weights);
    };
    Value none = kb.index(0);
    if (parts == 1)
      return merge(warps, none, 1, mean);
    auto keepIn = [&](Value slot) -> SumsBody {
      return [this, slot, none](Value group, Value values, Value weights, Value largest) {
        sums.store(partSums, slot, group, values);
        kb.when(kb.equal(group, none), [&] { sums.storeRows(partSums, slot, largest, weights); });
      };
    };
    if (cluster) {
      merge(warps, none, 1, keepIn(none));
      kb.clusterBarrier();
      SumsSources peers = {[&](Value i) {
                             SumsView there = {kb.peer(partSums.values, i),
                                               kb.peer(partSums.rows, i)};
                             return std::pair(there, none);
                           },
                           kb.index(parts), parts};
      merge(peers, kb.clusterRank(), parts, mean);
      return kb.clusterBarrier(); // others may still read this one's sums
    }
    kb.when(
        kb.equal(used, kb.index(1)), [&] { merge(warps, none, 1, mean); },
        [&] { meetInMemory(warps, keepIn, mean); });
  }

  /// Leaves the part's sums in memory; the last part of a row to arrive adds all. Where these are
  /// more than `fan`, the last of a group adds that, and the last of these the groups: one work
  /// item that reads all parts takes longer than the last of them does.
  void meetInMemory(const SumsSources &warps, function_ref<SumsBody(Value slot)> keepIn,
                    const SumsBody &mean) {
    Value none = kb.index(0), item = kb.add(kb.mul(row, shape.kvHeads), kvHead);
    int64_t groups = groupsOf(parts, fan);
    Value base = kb.mul(item, parts + groups), counter = kb.mul(item, groups + 1);
    merge(warps, none, 1, keepIn(kb.add(base, part)));
    if (!groups) {
      Value last = kb.arriveLast(arrivals, counter, used);
      return kb.when(last, [&] { merge(sums.slots(partSums, base, used, parts), none, 1, mean); });
    }
    Value group = kb.div(part, fan), first = kb.mul(group, fan);
    Value members = kb.min(kb.sub(used, first), kb.index(fan));
    Value last = kb.arriveLast(arrivals, kb.add(counter, group), members);
    kb.when(last, [&] {
      Value grouped = kb.add(base, parts), filled = kb.ceilDiv(used, fan);
      merge(sums.slots(partSums, kb.add(base, first), members, fan), none, 1,
            keepIn(kb.add(grouped, group)));
      Value all = kb.arriveLast(arrivals, kb.add(counter, groups), filled);
      kb.when(all, [&] { merge(sums.slots(partSums, grouped, filled, groups), none, 1, mean); });
    });
  }

  KernelBuilder &kb;
  MatrixTiles m;
  const CachePages &cache;
  const AttentionShape &shape;
  const int64_t consumers, loaders, attendRegisters, loadRegisters, stages, turns, parts;
  const int64_t fan;  ///< parts, or groups of them, that are added at once
  const bool cluster; ///< the parts of a row meet in one
  BatchRows batch;
  AttentionProducts products;
  const int64_t mergers; ///< warps that merge
  AttentionSums sums;
  Value query, pool, selection, out, arrivals;
  SumsView partSums, warpSums;
  Value ring, pages, seenKeys;
  Value part, kvHead, row, position, tableRow, listed, begin, end, used, loader;
};

} // namespace

bool matrixAttentionServes(const AttentionShape &shape, m3::CacheType cache, Type query, Type out) {
  return query == out && shape.group() <= attentionHeads && shape.selected <= lanes &&
         StagedSlot::serves(cache, shape.dims);
}

LogicalResult emitMatrixAttention(StepLowering &step, const CachePages &cache,
                                  const AttentionShape &shape, const Schedule &schedule,
                                  const AttentionOperands &operands) {
  const MatrixUnit &unit = step.chip.matrix;
  const int64_t consumers = schedule.at("consumers");
  if (consumers % pageWarps)
    return emitError(step.module.getLoc())
           << "attention with consumers=" << consumers << ": a multiple of " << pageWarps
           << " is needed, which share a page; change it by --schedule";
  if (isFlat(schedule))
    return emitFlatAttention(step, cache, shape, schedule, operands);
  if (failed(
          checkLoaders(step.module.getLoc(), "attention", schedule, unit, consumers / pageWarps)))
    return failure();
  std::optional<PartMemory> memory;
  if (int64_t parts = schedule.at("parts"); parts > 1 && !meets(schedule)) {
    int64_t groups = groupsOf(parts, fanOf(schedule));
    memory = {parts + groups, groups + 1, {shape.dims / unit.columns, unit.lanes, 4}};
  }
  return emitPartedAttention(step, cache, shape, schedule, operands, memory,
                             [&](KernelBuilder &kb, const AttentionParameters &parameters) {
                               MatrixAttention(kb, parameters, cache, shape, schedule, unit).emit();
                             });
}

} // namespace m3c::kernel
