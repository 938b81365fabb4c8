// Block scores printed wholly from tile: the plain sibling of those on matrix instructions
// (IndexMatrix.h) and in tensor memory (IndexTensor.h).
#pragma once

#include "passes/kernel/families/cache/CachePages.h"

namespace m3c::kernel {

/// Sizes of one index_topk.
struct IndexShape {
  int64_t heads, dims, k, init, local;
};

/// Parameters: batch rows, index queries [rows, heads, dims], pool (at the layer's index slot),
/// scores [rows · heads · page-table row length], all of f32 but the pool's bytes. Schedule: `rows`
/// of a tile, `keys` and `heads` of a register tile, `lanes` of a vector, `blocks_per_item`, `ring`
/// (stages; 0: none) and `chunk` (tokens of a stage).
void emitPlainScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
                     const Schedule &schedule);

} // namespace m3c::kernel
