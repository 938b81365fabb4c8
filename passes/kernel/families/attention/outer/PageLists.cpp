// The launches that list which rows chose each block. Both have a work item for some blocks and 128
// rows: the first counts the rows of each block, the second puts them where the counts say.
#include "passes/kernel/families/attention/outer/KvOuter.h"

using namespace mlir;

namespace m3c::kernel {
namespace {

/// Rows that a work item looks at, a lane for each in every line.
constexpr int64_t lanes = 32, lines = PageLists::rowsTogether / lanes;

} // namespace

PageLists::PageLists(KernelBuilder &kb, const KvOuter &outer, BatchRows &batch,
                     const RowsAtOnce &rows, const Views &views, Value kvHead)
    : kb(kb), outer(outer), batch(batch), rows(rows), views(views), kvHead(kvHead) {
  Value most =
      kb.add(kb.mul(batch.tableLength, outer.together), kb.mul(rows.most, outer.shape.selected));
  base = kb.mul(kvHead, most);
  parts = kb.ceilDiv(rows.most, rowsTogether);
}

int64_t PageLists::fixedBytes(const KvOuter &outer, int64_t mostRows) {
  return outer.shape.kvHeads * mostRows * outer.shape.selected * 4;
}
int64_t PageLists::blockBytes(const KvOuter &outer) {
  return outer.shape.kvHeads * outer.together * 4;
}
int64_t PageLists::countBytes(const KvOuter &outer, int64_t mostRows) {
  return outer.shape.kvHeads * int64_t(llvm::divideCeil(mostRows, rowsTogether)) * 4;
}

/// What the rows of a work item have chosen, for a KV head: a tile of rows for each choice. Rows
/// come side by side and are turned in shared memory.
struct PageLists::Choices {
  Choices(KernelBuilder &kb, const KvOuter &outer, Value selection, Value firstRow, Value given,
          Value part, Value kvHead)
      : kb(kb), type(kb.tile(lines, lanes, kb.i32Type())),
        conditions(kb.tile(lines, lanes, kb.builder().getI1Type())) {
    Value first = kb.toI32(kb.mul(part, rowsTogether)), count = kb.toI32(given);
    number = kb.map(kb.reshape(kb.iota(rowsTogether), lines, lanes), type,
                    [&](ValueRange args) { return kb.add(args[0], first); });
    isGiven = kb.map(number, conditions, [&](ValueRange args) { return kb.less(args[0], count); });
    inside = kb.map(number, type, [&](ValueRange args) {
      return kb.max(kb.min(args[0], kb.sub(count, kb.i32(1))), kb.i32(0));
    });
    const int64_t selected = outer.shape.selected, together = 8; // rows that are brought at once
    Value turned = kb.alloc({rowsTogether, selected | 1}, kb.i32Type()); // in different banks
    kb.eachByWarp(kb.index(0), kb.index(rowsTogether / together), [&](Value i) {
      // Past the last row the buffer has `paddingRows` more.
      Value row = kb.mul(i, together);
      Value from = kb.min(kb.add(row, kb.mul(part, rowsTogether)), given);
      Value rows = kb.load(selection, {kb.add(firstRow, from), kb.mul(kvHead, selected)},
                           {together, selected}, 1, together * selected);
      kb.store(rows, turned, {row, kb.index(0)}, {together, selected});
    });
    kb.barrier();
    for (int64_t j = 0; j < selected; ++j)
      blocks.push_back(
          kb.load(turned, {kb.index(0), kb.index(j)}, {rowsTogether, 1}, lines, lanes));
  }

  /// Of each row which choice a block is; none: −1.
  Value choiceOf(Value block) {
    Value own = kb.toI32(block),
          found = kb.map(number, type, [&](ValueRange) { return kb.i32(-1); });
    for (auto [j, chosen] : llvm::enumerate(blocks))
      found = kb.map({chosen, found}, type, [&, j = j](ValueRange args) {
        return kb.selectf(kb.equal(args[0], own), kb.i32(int64_t(j)), args[1]);
      });
    return found;
  }
  /// Whether a row has chosen it.
  Value takes(Value choice) {
    return kb.map({choice, isGiven}, conditions, [&](ValueRange args) {
      return kb.both(kb.atLeast(args[0], kb.i32(0)), args[1]);
    });
  }
  Value times(Value a, int64_t b) { return arith::MulIOp::create(kb.builder(), a, kb.i32(b)); }

  KernelBuilder &kb;
  tile::TileType type, conditions;
  Value number, inside, isGiven; ///< of the rows; `inside` repeats the last one
  Values blocks;
};

PageLists::Choices PageLists::choices(Value selection, Value part) {
  Value given = kb.max(kb.min(kb.sub(batch.rows, rows.first), rows.most), kb.index(0));
  return Choices(kb, outer, selection, rows.first, given, part, kvHead);
}

/// The warp's blocks of those of the work item.
std::pair<Value, Value> PageLists::ownBlocks(Value group) {
  const int64_t each = blocksTogether / kb.warps();
  Value first = kb.add(kb.mul(group, blocksTogether), kb.mul(kb.warpId(), each));
  return {first, kb.min(kb.add(first, each), batch.tableLength)};
}

/// The place of the counts of a block.
Value PageLists::countsOf(Value block) {
  return kb.mul(kb.add(kb.mul(kvHead, batch.tableLength), block), parts);
}

void PageLists::count(Value selection, Value group, Value part) {
  Choices chosen = choices(selection, part);
  auto [first, end] = ownBlocks(group);
  kb.forLoop(first, end, 1, [&](Value block) {
    Value takes = chosen.takes(chosen.choiceOf(block));
    Value count = tile::CountOp::create(kb.builder(), kb.builder().getIndexType(), takes);
    kb.storeScalar(count, views.counts, {kb.add(countsOf(block), part)});
  });
}

/// The sum of counts from … to − 1, `width` at once, by a warp; `shared`: of all warps' shares each
/// its own.
Value PageLists::sumOf(Value from, Value to, int64_t width, bool shared) {
  auto type = kb.tile(1, width, kb.i32Type());
  Value number = kb.iota(width);
  Value none = kb.map(number, type, [&](ValueRange) { return kb.i32(0); });
  Value first = shared ? kb.add(from, kb.mul(kb.warpId(), width)) : from;
  Value sums = kb.forLoop(
      first, to, shared ? kb.warps() * width : width, none, [&](Value i, ValueRange carried) {
        Value left = kb.toI32(kb.sub(to, i));
        Value inside = kb.map(number, type, [&](ValueRange args) {
          return kb.min(args[0], kb.sub(left, kb.i32(1)));
        });
        Value found = kb.gather(views.counts, i, inside);
        return Values{kb.map({carried[0], found, number}, type, [&](ValueRange args) {
          return kb.add(args[0], kb.selectf(kb.less(args[2], left), args[1], kb.i32(0)));
        })};
      })[0];
  Value sum = kb.extract(kb.reduce(tile::ReduceKind::Add, sums), 0, 0);
  return kb.toIndex(sum);
}

/// Entries of blocks before those of the work item, by all warps.
Value PageLists::before(Value group) {
  Value first = kb.min(kb.mul(group, blocksTogether), batch.tableLength), warp = kb.warpId();
  Value ofWarps = kb.alloc({kb.warps()}, kb.i32Type());
  Value own = sumOf(countsOf(kb.index(0)), countsOf(first), 512, true);
  kb.storeScalar(own, ofWarps, {warp});
  kb.barrier();
  Value sum = kb.index(0);
  for (int64_t w = 0; w < kb.warps(); ++w)
    sum = kb.add(sum, kb.loadIndex(ofWarps, {kb.index(w)}));
  return sum;
}

void PageLists::list(Value selection, Value group, Value part) {
  Value blocks = batch.tableLength;
  Choices chosen = choices(selection, part);
  Value sequences = kb.gather(batch.sequences, rows.first, chosen.inside);
  Value positions = kb.gather(batch.positions, rows.first, chosen.inside);
  auto [first, end] = ownBlocks(group);
  Value groupFirst = kb.min(kb.mul(group, blocksTogether), blocks);
  Value start =
      kb.add(before(group), sumOf(countsOf(groupFirst), countsOf(kb.min(first, blocks)), 512));
  kb.forLoop(first, end, 1, start, [&](Value block, ValueRange carried) {
    Value counts = countsOf(block), own = kb.add(counts, part);
    Value earlier = sumOf(counts, own, 64);
    Value count = kb.add(earlier, sumOf(own, kb.add(counts, parts), 64));
    Value begin = place(firstTile(block, carried[0])), next = kb.add(carried[0], count);
    fill(chosen, sequences, positions, block, kb.add(begin, earlier));
    kb.when(kb.equal(part, kb.add(parts, -1)), [&] {
      Value tile = firstTile(kb.add(block, 1), next);
      pad(kb.add(begin, count), place(tile));
      kb.when(kb.equal(kb.add(block, 1), blocks),
              [&] { kb.storeScalar(tile, views.tiles, {kvHead}); });
    });
    return Values{next};
  });
}

/// The entries of a block from place `start` on.
void PageLists::fill(Choices &chosen, Value sequences, Value positions, Value block, Value start) {
  auto &b = kb.builder();
  Value past = kb.toI32(kb.sub(kb.index(1), kb.mul(block, m3::blockTokens)));
  Value stride = kb.toI32(batch.tableLength), choice = chosen.choiceOf(block);
  Value takes = chosen.takes(choice);
  Value count = tile::CountOp::create(b, b.getIndexType(), takes);
  // Of rows that are not there the sequence is anything.
  kb.when(kb.less(kb.index(0), count), [&] {
    Value entries = kb.map({chosen.number, choice}, chosen.type, [&](ValueRange args) {
      return kb.add(chosen.times(args[0], outer.shape.selected), args[1]);
    });
    Value line = kb.map(sequences, chosen.type, [&](ValueRange args) {
      return Value(arith::MulIOp::create(b, args[0], stride));
    });
    Value pages = kb.gather(batch.table, block, line);
    Value seen = kb.map(positions, chosen.type, [&](ValueRange args) {
      return kb.min(kb.add(args[0], past), kb.i32(m3::blockTokens));
    });
    for (auto [values, view] : {std::pair(entries, views.entries), std::pair(pages, views.pages),
                                std::pair(seen, views.seen)})
      tile::CompactOp::create(b, values, view, ValueRange{start}, takes, kb.index(rowsTogether));
  });
}

/// No entries from one place to another, fewer than `lanes`.
void PageLists::pad(Value from, Value to) {
  auto type = kb.tile(1, lanes, kb.i32Type());
  Value count = kb.toI32(kb.sub(to, from));
  Value none = kb.map(kb.iota(lanes), type, [&](ValueRange) { return kb.i32(-1); });
  Value places = kb.map(kb.iota(lanes), type, [&](ValueRange args) {
    return kb.selectf(kb.less(args[0], count), args[0], kb.i32(-1));
  });
  for (Value view : {views.entries, views.pages, views.seen})
    kb.scatter(none, places, view, {from});
}

} // namespace m3c::kernel
