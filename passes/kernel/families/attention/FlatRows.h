// The pages of all rows of a batch laid end to end and cut into stretches (planFlat of
// passes/targets/common/WorkPlan.h), as arithmetic of a kernel: a work item has a stretch, which
// may end one row, hold whole ones and begin another. Pages are numbered in that order.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"
#include "passes/targets/common/WorkPlan.h"

namespace m3c::kernel {

class FlatRows {
public:
  /// Rows of a batch, at most.
  static constexpr int64_t mostRows = mostFlatRequests;

  /// `parts`: stretches at most; `selected`: blocks of a selection, which names as many of a row's
  /// blocks as there are, or as it has room for; 0: rows attend to all.
  FlatRows(KernelBuilder &kb, BatchRows &batch, int64_t parts, int64_t selected)
      : kb(kb), batch(batch), most(parts), selected(selected) {}

  void allocate();
  /// By one warp, of at least one row; the others read it behind a barrier.
  void lay();
  /// The stretch of `part`, in every warp. Without pages begin = end.
  void divide(Value part);

  Value parts;       ///< stretches, all with pages
  Value begin, end;  ///< the stretch
  Value first, last; ///< the rows that its first and its last page are of

  /// Pages of a row: startOf … endOf − 1.
  Value startOf(Value row);
  Value endOf(Value row) { return kb.loadIndex(ends, {row}); }
  /// The stretch's pages of a row that it has some of.
  std::pair<Value, Value> ownOf(Value row);
  /// Whether it lacks some of them.
  Value isShared(Value row);
  /// The stretches that have pages of a row: the first, and how many.
  std::pair<Value, Value> partsOf(Value row);
  /// For numbers of pages of the stretch, a row of i32 for as many: the row of each, and its place
  /// in the list of that row's pages.
  std::pair<Value, Value> find(Value pages);

private:
  tile::TileType numbers() { return kb.tile(1, lanes, kb.i32Type()); }
  /// Numbers of lanes, those behind the last row again that of the last.
  Value upTo(Value last);
  Value total(Value counts);
  /// How many of the rows from `from` on, up to 32, have the sequence of the row before.
  Value followers(Value from, Value newest);

  static constexpr int64_t lanes = 32;
  KernelBuilder &kb;
  BatchRows &batch;
  const int64_t most, selected;
  Value ends, used, all;
};

/// Lists of the pages of a stretch, in shared memory: of the next ones where they lie, and of these
/// and as many before them how many keys their rows may see.
class FlatPages {
public:
  static constexpr int64_t listed = 32;

  /// `loaders`: warps that bring pages in turn, a divisor of 32; each has lists of its own.
  FlatPages(KernelBuilder &kb, BatchRows &batch, FlatRows &rows, const AttentionShape &shape,
            int64_t loaders)
      : kb(kb), batch(batch), rows(rows), shape(shape), loaders(loaders) {}
  void allocate();

  /// By the warp `loader`: pages use … use + 31 of the stretch; uses are numbered from 0 in it, and
  /// `use` is a multiple of 32. Those who read what is seen may be 31 uses behind.
  void list(Value use, Value kvHead, Value loader, Value selection);
  /// The page at a place of the list.
  Value page(Value loader, Value place) { return kb.loadIndex(pages, {loader, place}); }
  /// How many keys of the use's page its row may see: 128 or more, all of them; none or less, none.
  Value seen(Value use);

private:
  Value inSelections(Value kvHead, Value row, Value place);

  static constexpr int64_t held = 2 * listed;
  KernelBuilder &kb;
  BatchRows &batch;
  FlatRows &rows;
  const AttentionShape &shape;
  const int64_t loaders;
  Value pages, seenKeys;
};

/// Sums of parts in slots from `base` on, of which there are no more than `most`.
struct SlotRun {
  Value base, count;
  int64_t most;
};

/// Where stretches leave what they have summed of a row that they share, and who adds it: slots and
/// counters by flatSlot and flatGroup of WorkPlan.h, one KV head behind the other.
class FlatSums {
public:
  /// Schedule: `parts`, `merge` (fanOf).
  FlatSums(KernelBuilder &kb, BatchRows &batch, FlatRows &rows, const Schedule &schedule,
           int64_t kvHeads)
      : kb(kb), batch(batch), rows(rows), parts(schedule.at("parts")), fan(fanOf(schedule)),
        kvHeads(kvHeads) {}
  /// For steps of up to `stepRows` rows; `values`: sizes of those in a slot.
  static PartMemory memory(int64_t stepRows, const Schedule &schedule,
                           llvm::ArrayRef<int64_t> values);

  /// The slot of a part of a row.
  Value own(Value kvHead, Value part, Value row);
  /// Calls `body` for each row that the stretch shares: its first, its last, neither or both.
  void eachShared(llvm::function_ref<void(Value row)> body);
  /// By all warps, with the part's sums in its slot: the last part of a row to come here calls
  /// `all` with the slots of all; where these are more than `fan`, the last of a group has called
  /// `group` with theirs and the slot of their sum, and those are the slots of all. Sums are added
  /// in the order of the row's pages, whoever comes last.
  void meet(Value kvHead, Value part, Value row, Value arrivals,
            llvm::function_ref<void(const SlotRun &parts, Value slot)> group,
            llvm::function_ref<void(const SlotRun &parts)> all);

private:
  bool hasGroups() const { return parts > fan; }
  Value slotsOfHead() { return kb.add(rows.parts, batch.rows); }
  Value groupsOfHead();

  KernelBuilder &kb;
  BatchRows &batch;
  FlatRows &rows;
  const int64_t parts, fan, kvHeads;
};

} // namespace m3c::kernel
