// Choice of the k best blocks of each row and head.
#pragma once

#include "passes/kernel/families/selection/IndexScores.h"

namespace m3c::kernel {

/// Parameters: batch rows, scores of f32, selection [rows, heads, k] of i32: ids ascending, then
/// −1. Work item: one row and head, by one warp, or `byWarps` by all (SelectWarps.h), to the same
/// ids.
void emitSelection(KernelBuilder &kb, const IndexShape &shape, bool byWarps);

} // namespace m3c::kernel
