// Sparse attention of many rows, pages outside and rows inside: a page is dequantised once, into
// shared memory, and multiplied with all rows that chose it.
//
// Four launches for some rows at a time. Two list the rows that chose each page. The third
// multiplies: four warps with four rows of sixteen heads are one product of 64 rows on wgmma, keys
// and values its right operands, so a row's scores, softmax and weighted values stay in the
// registers of one warp. What a row gets from a page, the mean of its values, goes to memory; the
// fourth launch adds the pages of a row in the order of its choices. A row's result does not depend
// on which rows stand beside it. The kernel of AttentionMatrix.h does the same row by row.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"
#include "passes/kernel/families/cache/MatrixTiles.h"

namespace m3c::kernel {

/// The form (`switchableForms`), and its mark in a schedule.
inline constexpr const char *kvOuterForm = "kv_outer";

/// Whether it does it: selections, what AttentionMatrix.h serves, queries in BF16.
bool kvOuterServes(const AttentionShape &shape, m3::CacheType cache, Type query, Type out);

/// Launches it. Schedule: `consumers` (warps of a work item, 4, 8 or 16; as many rows go together),
/// `residents` (work items of a multiprocessor), `ahead` (1: a warp reads its next queries while it
/// multiplies), `parts` (work items of a KV head, which share the
/// rows of all pages evenly), `rows_at_once` (that go through the launches together; what
/// their pages give them is kept in memory, 4 KiB for each page of a row and KV head).
mlir::LogicalResult emitKvOuterAttention(StepLowering &step, const CachePages &cache,
                                         const AttentionShape &shape, const Schedule &schedule,
                                         const AttentionOperands &operands);

//===- Parts of it ----------------------------------------------------------------------------===//

/// What its kernels are made for.
struct KvOuter {
  const CachePages &cache;
  const AttentionShape &shape;
  int64_t together; ///< rows that are multiplied together: a tile
  bool ahead;       ///< the queries of the next tile are read meanwhile
};

/// The rows that go through the launches together: from `first` on, at most so many.
struct RowsAtOnce {
  Value first, most;
};

/// The rows that chose each block, for a KV head: entries (row · selected + choice, rows counted
/// from the first of those at once), block by block in the order of rows, each block's from a tile
/// of its own on. The first tile of block b is begin / together + b where `begin` entries come
/// before: no block needs to know how many tiles the others have. Beside each entry stand its
/// page and how many keys of that the row sees; a page of −1 is no entry.
class PageLists {
public:
  /// Rows and blocks that a work item of the launches that make the lists has.
  static constexpr int64_t rowsTogether = 128, blocksTogether = 64;

  /// Views [entries] of i32 of all KV heads, [KV heads] for the numbers of tiles, and for how many
  /// of 128 rows chose a block [KV heads, blocks, rows / 128].
  struct Views {
    Value entries, pages, seen, tiles, counts;
  };
  PageLists(KernelBuilder &kb, const KvOuter &outer, BatchRows &batch, const RowsAtOnce &rows,
            const Views &views, Value kvHead);
  static int64_t fixedBytes(const KvOuter &outer, int64_t mostRows);
  static int64_t blockBytes(const KvOuter &outer);
  /// For each block.
  static int64_t countBytes(const KvOuter &outer, int64_t mostRows);

  /// The counts of blocks 64 · group … and rows 128 · part …, by all warps of a work item. Rows
  /// chose the blocks of `selection` [rows, KV heads · selected].
  void count(Value selection, Value group, Value part);
  /// Their entries; the last part of a block writes what follows them.
  void list(Value selection, Value group, Value part);

  /// Tiles that any block has.
  Value tiles() { return kb.loadIndex(views.tiles, {kvHead}); }
  /// The place of a tile's first entry.
  Value place(Value tile) { return kb.add(base, kb.mul(tile, outer.together)); }
  // As i32; −1 where there is no entry.
  Value entry(Value place) { return kb.loadScalar(views.entries, {place}); }
  Value page(Value place) { return kb.loadScalar(views.pages, {place}); }
  Value seen(Value place) { return kb.loadScalar(views.seen, {place}); }

private:
  struct Choices;

  Value firstTile(Value block, Value begin) { return kb.add(kb.div(begin, outer.together), block); }
  Choices choices(Value selection, Value part);
  std::pair<Value, Value> ownBlocks(Value group);
  Value countsOf(Value block);
  Value sumOf(Value from, Value to, int64_t width, bool shared = false);
  Value before(Value group);
  void fill(Choices &chosen, Value sequences, Value positions, Value block, Value start);
  void pad(Value from, Value to);

  KernelBuilder &kb;
  const KvOuter &outer;
  BatchRows &batch;
  RowsAtOnce rows;
  Views views;
  Value kvHead, base, parts; ///< parts: of 128 rows each
};

/// What each page gives a row and KV head: the means of its values, FP16 [slots, dims / 16, lanes,
/// 8] in the order of registers; the largest score and the sum of weights, [slots, 2, 16].
struct PageMeans {
  Value values, rows;
  static tile::ViewType valuesType(mlir::MLIRContext *context, const MatrixUnit &unit,
                                   const AttentionShape &shape);
  static tile::ViewType rowsType(mlir::MLIRContext *context);
};

/// Emits the products of one work item: a stretch of the tiles of a KV head. Queries are
/// [rows · heads, dims].
void emitPageProducts(KernelBuilder &kb, const KvOuter &outer, const MatrixUnit &unit,
                      PageLists &lists, Value query, Value pool, const PageMeans &means,
                      Value firstRow, int64_t parts);

/// Emits the sums of the pages of some rows, a warp for each.
void emitPageSums(KernelBuilder &kb, const KvOuter &outer, const MatrixUnit &unit, BatchRows &batch,
                  Value selection, const PageMeans &means, Value out, const RowsAtOnce &rows);

} // namespace m3c::kernel
