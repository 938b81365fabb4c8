// Products by matrix instructions: weights dequantised into the left operand of m16n8k16, rows of
// the batch as its columns.
//
// Operands are BF16 (every dequantised weight is exact in it), sums FP32 in the instruction's
// order; the warps of a work item share K, and their sums are added in the order of the warps. The
// same rows give the same bits in every batch and chunk as long as the same schedule runs; another
// schedule may split K otherwise. The plain sibling is the chain of Product.h.
#pragma once

#include "passes/kernel/products/Product.h"

namespace m3c::kernel {

/// K of one fragment.
inline constexpr int64_t fragmentK = 64;

/// View types of a weight in fragments: words [panels, K/64, bits/4, 32, 4] of i32, scales
/// [panels, K/64, lanes, 2] of bytes.
llvm::SmallVector<Type> fragmentParameterTypes(mlir::MLIRContext *context,
                                               const PackedWeight &weight);

/// A warp's codes of 16 outputs × 64 k and their scales.
struct FragmentCodes {
  Value words, scales; ///< scales may be null
};
FragmentCodes loadFragment(KernelBuilder &kb, const WeightView &weight, Value panel, Value unit);
/// The left operand of a matrix instruction.
Value dequantised(KernelBuilder &kb, const PackedWeight &weight, const FragmentCodes &codes);
/// Sums of dequantised operands as those of the weights: operands of E2M1 are 2^-9 of their values.
Value unscaledSums(KernelBuilder &kb, const PackedWeight &weight, Value sums);

/// Emits the product of one work item; `epilogue` gets one row at a time, in the warp that stores
/// it. Schedule: rows (a multiple of 8, of split rows (SplitRows.h) of 4), panels, warps, k_split
/// (warps along K; the others along the panels), ahead (fragments of each panel that are under way
/// at once).
void emitFragmentProduct(KernelBuilder &kb, const Product &product, Epilogue epilogue);

} // namespace m3c::kernel
