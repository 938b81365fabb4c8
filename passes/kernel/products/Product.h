// Products with a packed weight: the loops that every projection, expert and head kernel shares.
//
// y[m,n] is one chain of fused multiply-adds over ascending k, starting from 0, on exactly
// dequantised weights; the global scale of NVFP4 is a single multiplication at the end. No schedule
// changes that order, so results do not depend on tile shapes, on the rows of a batch, or on the
// work split.
#pragma once

#include "passes/kernel/products/ProductSchedule.h"

namespace m3c::kernel {

/// A packed weight inside a kernel.
struct WeightView {
  PackedWeight shape;
  Value words;  ///< view [panels/abreast, K/perWord, 16·abreast] of i32
  Value scales; ///< view [panels/abreast, K/group, 16·abreast] of bytes, or null
  Value global; ///< view of f32, or null
};

/// Parameter types of a packed weight, in the order words, scales, global (those that exist).
llvm::SmallVector<Type> weightParameterTypes(mlir::MLIRContext *context,
                                             const PackedWeight &weight);
/// Binds parameters from `next` on, and advances it.
WeightView bindWeight(KernelBuilder &kb, const PackedWeight &weight, unsigned &next);
/// The matching launch arguments.
void addWeightArguments(StepLowering &step, const PackedWeight &weight,
                        llvm::SmallVectorImpl<LaunchArgument> &arguments);

/// Rows of x by a list: that of row r is list[r + offset] / per.
struct RowList {
  Value list; ///< view of i32, or null: row r itself
  int64_t offset = 0, per = 1;
};

/// Rows × panels × K of one work item.
struct Product {
  WeightView weight;
  Value x;                ///< view [rows, K] of f32 or BF16 codes
  Value rowBegin, rowEnd; ///< rows to compute; whole register tiles may read past rowEnd
  Value panel;            ///< first panel; the item's panels lie in whole blocks, or in one
  /// Row of x for a computed row. Given only where the register tile has one row, or to matrix
  /// instructions.
  RowList rowOfX = {};
  /// rows, panels, ring; with a ring: stages, row_block, k_chunk; without: ahead (words of a
  /// panel). Or, by matrix instructions: rows, row_block, panels, warps, k_split (warps of a work
  /// item that share K), cluster (work items that share it further), ahead (fragments), roll
  /// (they are replaced one by one, not batch by batch), one_tile (no loop over tiles of rows, one
  /// product in the kernel), with it early (weights before the wait for the launch before; 2: the
  /// next launch may begin before it, too), straight (no loop over K), ahead_rows (with it:
  /// fragments of activations under way)
  Schedule schedule;
  /// For streams of codes: the first panel of what is multiplied after this product, of equal size,
  /// which is brought near towards the end; null for the panels that follow.
  Value next = {};
  bool started = false; ///< the first words have been brought near before (`bringStartNear`)
  /// Of packed rows: which tile of them, if not the one that begins at rowBegin.
  Value tileOfX = {};
  /// Panels are those of two matrices in turn. Sums of packed rows then come with all outputs of
  /// the first before those of the second.
  bool pairs = false;
};

/// Starts to bring the first words of a product whose codes stream through registers near.
void bringStartNear(KernelBuilder &kb, const Product &product);

/// What becomes of a register tile: `acc` is [tile rows, 16·panels] of f32 for rows row … .
using Epilogue = llvm::function_ref<void(Value acc, Value row)>;

/// An epilogue that reads memory. Where its rows follow each other, reads of several are under way
/// together.
struct RowEpilogue {
  std::function<Values(Value row, tile::TileType acc)>
      load; ///< for the rows of a tile; may be null
  std::function<void(Value acc, Value row, mlir::ValueRange loaded)> store;

  Values loadFor(Value row, Value acc) const {
    return load ? load(row, mlir::cast<tile::TileType>(acc.getType())) : Values{};
  }
};

/// True where the work items of a cluster store their sums of a row where it goes on, which saves
/// the way there and back of a read and a barrier at the end; their memory serves one tile only.
bool partsMeet(KernelBuilder &kb, const Product &product);

/// The end of a product whose K several warps share, for the rows from `row` on: `storePart` stores
/// this warp's sums to `parts` [parts of K, rows, outputs or more] in shared memory; they are added
/// in the order of the work items of the cluster and of the parts, and each row goes on in one
/// warp, which depends on its number alone (`eachByWarpOfCluster`). Where parts meet, `parts` has
/// the rows of this work item from all of the cluster, which it has told that it began
/// (tile.cluster_arrive).
void addParts(KernelBuilder &kb, const Product &product, Value parts, Value row,
              llvm::function_ref<void()> storePart, Epilogue epilogue);

/// Emits the loops of one work item.
void emitProduct(KernelBuilder &kb, const Product &product, Epilogue epilogue);
void emitProduct(KernelBuilder &kb, const Product &product, const RowEpilogue &epilogue);

/// The rows of one work item where the second grid axis counts blocks of rows; all of `rows` else.
struct RowBlock {
  RowBlock(KernelBuilder &kb, const Schedule &schedule, Value rows);
  Value begin, end;
};

/// Stores columns of a tile; outputs past `outputs` are not written.
void storeColumns(KernelBuilder &kb, Value tile, Value view, Value row, Value col, int64_t outputs,
                  Value rowEnd);

} // namespace m3c::kernel
