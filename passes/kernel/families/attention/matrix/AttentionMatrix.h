// Attention of single rows on matrix instructions: the pages of a row are cut into parts, each part
// is a work item, and the part that is done last adds all of them. The plain sibling is the kernel
// of AttentionPlain.cpp.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"
#include "passes/kernel/families/cache/MatrixTiles.h"

namespace m3c::kernel {

/// Whether this kernel does it: FP16 operands hold the cache exactly, and the queries (of BF16
/// queries what they have above 2^-24; FP32 queries of FP8 caches are two operands, 22 bits), the
/// query heads of a KV head fit one left operand, the selection one warp.
bool matrixAttentionServes(const AttentionShape &shape, m3::CacheType cache, Type query, Type out);

/// Launches it. Schedule: `consumers` (warps that multiply, a multiple of 4), `loaders` (warps that
/// bring pages; without: one), `attend_registers`, `load_registers` (of a thread of these roles; 0:
/// those that a work item begins with), `stages` (pages in flight), `parts` (of a row and KV head),
/// `merge` (parts whose sums are added at once; of more, groups are added first; without: all),
/// `product` (CodeProduct, all but Exact and Groups), `residents` (work items of a multiprocessor),
/// `meet` (1: the parts, at most eight, are a cluster and add their sums in its shared memory; 0:
/// the last to arrive adds what all left in global memory), `flat` (1: AttentionFlat.h; `parts` are
/// then those of all rows of a KV head, and `meet` is not looked at).
mlir::LogicalResult emitMatrixAttention(StepLowering &step, const CachePages &cache,
                                        const AttentionShape &shape, const Schedule &schedule,
                                        const AttentionOperands &operands);

} // namespace m3c::kernel
