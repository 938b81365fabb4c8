// How a product with a packed weight is cut into work items: a target's schedule fitted to the
// weight and to the rows of a step.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

/// Sizes of a product as a target's schedule asks for them: n, k, bits of a weight's element and of
/// an activation's; of a family that can split FP32 rows (SplitRows.h) also those of an element
/// that it hands on.
Schedule productProblem(llvm::ArrayRef<m3::WeightOp> sources, Type activations,
                        int64_t handedBits = 0);
/// True for a schedule that multiplies by matrix instructions (FragmentProduct.h).
bool usesFragments(const Schedule &schedule);

/// `panels` and `k_chunk` of a schedule made to divide the weight, `rows` and `row_block` fitted to
/// the bucket.
Schedule fitSchedule(Schedule schedule, const PackedWeight &weight, int64_t panelUnit,
                     int64_t rows);

/// Notes in a fitted schedule that all rows of a step are one tile of a matrix instruction, where
/// they are: its kernel then asks for weights before it knows the rows.
void noteOneTile(Schedule &schedule, int64_t rows);

/// Gives a fitted schedule another number of panels.
void setPanels(Schedule &schedule, int64_t panels);

/// Work items of a product: panels / (panels per item) × row blocks.
llvm::SmallVector<planir::GridDim> productGrid(const Schedule &schedule, int64_t panels,
                                               int64_t rows);

} // namespace m3c::kernel
