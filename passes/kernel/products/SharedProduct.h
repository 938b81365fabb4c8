// Products of many rows: rows of the batch stand in shared memory, where the warps of a work item
// share them, weights are dequantised into registers.
//
// A launch before rewrites the rows as stages of 64 k, each of which one copy brings; one warp
// does that, groups of four multiply, each warp a panel of 16 outputs; of sixteen warps, which
// leave no room for another, the first does both. Operands are BF16, sums FP32 in the order of the
// instruction along K; the work items of a cluster share K, and their sums are added in the order
// of their ranks. The plain sibling is the product of FragmentProduct.h.
#pragma once

#include "passes/kernel/products/FragmentProduct.h"
#include "passes/kernel/products/SplitRows.h"

namespace m3c::kernel {

/// The form of the families that have it (`switchableForms`), and its mark in a schedule.
inline constexpr const char *sharedRowsForm = "packed_rows";
inline bool sharesRows(const Schedule &schedule) { return isOn(schedule, sharedRowsForm); }

/// View type of the stages of packed rows: [tiles of rows · K/64, rows of a tile, 64] of i16.
tile::ViewType stagesType(mlir::MLIRContext *context, const Schedule &schedule);

/// View type of the rows that a product of that schedule multiplies, and their buffer: those of
/// `x` themselves, split (SplitRows.h) or packed, or first the one, then the other.
tile::ViewType multipliedType(mlir::MLIRContext *context, const PackedWeight &weight,
                              const Schedule &schedule, Type x);
Value multipliedRows(StepLowering &step, RowBuffer x, const PackedWeight &weight,
                     const Schedule &schedule, int64_t countIndex, llvm::StringRef label);

/// Launches what packs the `k` elements of each row of `x`, BF16 codes, for products of that
/// schedule; `countIndex` says which entry of counts holds the rows. The buffer of the stages.
Value packRows(StepLowering &step, Value x, int64_t k, const Schedule &schedule, int64_t countIndex,
               llvm::StringRef label);

/// Of a launch that packs rows, a stage in each work item.
Schedule packingSchedule(int64_t tileRows);
/// Packs 64 k of the rows from `begin` on, by all warps of the work item: number `unit` along K,
/// into `stage`; rows from `end` on are zero.
void emitPackStage(KernelBuilder &kb, Value x, Value begin, Value end, const RowList &list,
                   Value unit, Value stages, Value stage);

/// Choices made to fit the weight, beside `split_rows`: rows (64 or 128), panels (4, 8 or 16, a
/// warp each; where none divides those of the weight, the last work item has fewer), cluster
/// (divides K/64), ahead (codes under way, at least 2), stages (at least as many as hold the sums
/// in the end).
Schedule fitSharedRows(Schedule schedule, const PackedWeight &weight);

/// Emits the product of one work item: `product.x` are packed rows, `rowBegin` begins a tile of
/// them, or that is `tileOfX`. As `emitFragmentProduct`.
void emitSharedProduct(KernelBuilder &kb, const Product &product, const RowEpilogue &epilogue);

} // namespace m3c::kernel
