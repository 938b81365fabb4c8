// Sparse attention of a tile of rows on matrix instructions, in which a page that several rows have
// chosen is brought and dequantised once. The kernel of AttentionMatrix.h does the same row by row.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"
#include "passes/kernel/families/cache/MatrixTiles.h"

namespace m3c::kernel {

/// What AttentionMatrix's kernel serves (matrixAttentionServes), with a selection of blocks.
bool sharedAttentionServes(const AttentionShape &shape, m3::CacheType cache, Type query, Type out);

/// Launches it. Schedule: `shared_rows` (of a tile; sums of each stay in the registers of every
/// warp), `consumers` (warps, a multiple of 4; each also brings pages in its turn), `stages` (pages
/// of a ring, at least 3), `parts` (into which the pages of a tile and KV head are cut), `product`
/// (CodeProduct, all but Exact and Groups).
mlir::LogicalResult emitSharedAttention(StepLowering &step, const CachePages &cache,
                                        const AttentionShape &shape, const Schedule &schedule,
                                        const AttentionOperands &operands);

} // namespace m3c::kernel
