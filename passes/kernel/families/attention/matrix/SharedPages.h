// The pages that several rows have chosen, each once: a list made on the device by the warps of a
// work item, and of every page how many keys each row sees.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"

namespace m3c::kernel {

/// Rows first … first + tile − 1 of the batch, as far as it has them, and one KV head. Each row has
/// `selected` places for chosen blocks; −1 is none. Pages are told apart by their physical number,
/// so rows of one sequence share them as rows of sequences with a common beginning do. A row may
/// choose a page once.
class SharedPages {
public:
  /// Buffers in shared memory are made here.
  SharedPages(KernelBuilder &kb, BatchRows &batch, const AttentionShape &shape, int64_t tileRows);

  /// All warps of the work item list the pages of `selection` [rows, KV heads, selected]. Barriers
  /// of the work item stand before the first use of what others wrote, and at the end.
  void list(Value selection, Value firstRow, Value kvHead);

  /// Distinct pages: those of the first row in its order, then those that the second adds, …
  Value count() const { return total; }
  /// Physical number of a page of the list.
  Value page(Value place) { return kb.loadIndex(pages, {place}); }
  /// How many of its keys a row of the tile sees, 0 … 128; 0: the row did not choose it.
  Value seen(Value place, int64_t tileRow) {
    return kb.loadIndex(seenKeys, {kb.add(kb.mul(place, tileRows), tileRow)});
  }

private:
  tile::TileType numbers();
  /// An operation on the numbers of lanes.
  Value lanewise(mlir::ValueRange inputs, llvm::function_ref<Value(mlir::ValueRange)> body);
  Value load(Value list, Value chunk);
  void store(Value tile, Value list, Value chunk);
  /// Numbers of a chunk's entries, entry = row of the tile · selected + place of its list.
  Value entries(Value chunk);

  void readChosen(Value selection, Value firstRow, Value kvHead, Value chunk);
  void findFirst(Value chunk);
  void place(Value chunk);
  void noteSeen(Value chunk);

  KernelBuilder &kb;
  BatchRows &batch;
  const AttentionShape &shape;
  const int64_t tileRows, chunks; ///< chunks of 32 entries
  Value chosen, limits;           ///< of each entry: its page, how many keys its row sees
  Value firsts;                   ///< of each entry: the first one with its page
  Value places;                   ///< of each first entry: its place in the list
  Value counts;                   ///< of each chunk: how many first entries it has
  Value pages, seenKeys, total;
};

} // namespace m3c::kernel
