// Products of many rows: rows of the batch stand in shared memory, where the warps of a work item
// share them, weights are dequantised into registers.
//
// A launch before rewrites the rows as stages of 64 k, each of which one copy brings; one warp
// does that, groups of four multiply, each warp a panel of 16 outputs. Operands are BF16, sums FP32
// in the order of the instruction along K; the work items of a cluster share K, and their sums are
// added in the order of their ranks. The plain sibling is the product of FragmentProduct.h.
#pragma once

#include "passes/kernel/products/FragmentProduct.h"

namespace m3c::kernel {

/// The form of the families that have it (`switchableForms`), and its mark in a schedule.
inline constexpr const char *sharedRowsForm = "packed_rows";
inline bool sharesRows(const Schedule &schedule) { return isOn(schedule, sharedRowsForm); }

/// View type of the stages of packed rows: [tiles of rows · K/64, rows of a tile, 64] of i16.
tile::ViewType stagesType(mlir::MLIRContext *context, const Schedule &schedule);

/// View type of the rows that a product of that schedule multiplies, and their buffer: those of
/// `x` themselves, or packed.
tile::ViewType multipliedType(mlir::MLIRContext *context, const PackedWeight &weight,
                              const Schedule &schedule, Type x);
Value multipliedRows(StepLowering &step, Value x, const PackedWeight &weight,
                     const Schedule &schedule, int64_t countIndex, llvm::StringRef label);

/// Launches what packs the `k` elements of each row of `x`, BF16 codes, for products of that
/// schedule; `countIndex` says which entry of counts holds the rows. The buffer of the stages.
Value packRows(StepLowering &step, Value x, int64_t k, const Schedule &schedule, int64_t countIndex,
               llvm::StringRef label);

/// Choices made to fit the weight: rows (64, 128 or 256), panels (4 or 8, a warp each; where
/// neither divides those of the weight, the last work item has fewer), cluster (divides K/64),
/// ahead (codes under way, divides what is left of it), stages (as many as hold the sums in the
/// end).
Schedule fitSharedRows(Schedule schedule, const PackedWeight &weight);

/// Emits the product of one work item: `product.x` are packed rows, `rowBegin` begins a tile of
/// them. As `emitFragmentProduct`.
void emitSharedProduct(KernelBuilder &kb, const Product &product, Epilogue epilogue);

} // namespace m3c::kernel
