// FP32 rows for matrix instructions with BF16 operands: each element in two parts, rounded to BF16
// and what that leaves, rounded again, which loses 2^-18 of it at most. A split buffer has the
// first parts of a row, then the second ones, then the next row. Where rows are columns of an
// instruction, the parts of a row are two of them, whose sums are added in the end; of packed rows
// both are added to one sum, the second part of 64 k before the first.
#pragma once

#include "passes/kernel/products/ProductSchedule.h"

namespace m3c::kernel {

/// The form of the families that have it (`switchableForms`), and its mark in a schedule.
inline constexpr const char *splitRowsForm = "split_rows";
inline int64_t rowParts(const Schedule &schedule) { return isOn(schedule, splitRowsForm) ? 2 : 1; }

/// View types of split rows of `width` elements, of i16: [rows, 2 · width], [parts of rows, width].
tile::ViewType splitRowsType(mlir::MLIRContext *context, int64_t width);
tile::ViewType partsOfRowsType(mlir::MLIRContext *context, int64_t width);

/// FP32 columns of a row [1, cols] to y[row, col …], of f32, of BF16 codes or, where it has twice
/// the `width`, in two parts.
void storeRow(KernelBuilder &kb, Value tile, Value y, Value row, Value col, int64_t width);

/// A buffer of the split rows of `x`: `x` itself, or made by a launch. `countIndex` says which
/// entry of counts holds the rows.
Value splitRows(StepLowering &step, RowBuffer x, int64_t width, int64_t countIndex,
                llvm::StringRef label);

} // namespace m3c::kernel
