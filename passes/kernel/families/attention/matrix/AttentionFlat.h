// Attention on matrix instructions with the pages of all rows of a KV head laid end to end
// (FlatRows.h): each work item has a stretch of them, so a batch of long and short rows fills the
// chip. Its sibling with parts of each row is in AttentionMatrix.cpp.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"

namespace m3c::kernel {

/// Launches it; the schedule is that of emitMatrixAttention.
mlir::LogicalResult emitFlatAttention(StepLowering &step, const CachePages &cache,
                                      const AttentionShape &shape, const Schedule &schedule,
                                      const AttentionOperands &operands);

} // namespace m3c::kernel
