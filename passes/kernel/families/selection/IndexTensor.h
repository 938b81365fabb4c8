// Block scores in tensor memory: index keys of a page, dequantised there, are the 128 rows of a
// product, index queries of the rows that share a sequence its columns. Its plain siblings are the
// kernels of IndexMatrix.cpp and IndexScores.cpp.
#pragma once

#include "passes/kernel/families/cache/TensorTiles.h"
#include "passes/kernel/families/selection/IndexMatrix.h"

namespace m3c::kernel {

/// Whether this kernel does it: the cache is NVFP4 on the E4M3 grid, queries are E4M3 values in F32
/// or BF16.
bool tensorScoresServe(const IndexShape &shape, m3::CacheType cache, Value query);

/// Parameters: batch rows, index queries [rows · heads, dims], pool (at the layer's index slot),
/// scores [rows · heads · page-table row length]. Work item: a tile of rows × a part of the blocks
/// of each sequence in it. Schedule: `columns` (16 or 32: rows · heads of a tile at most), `stages`
/// (raw pages), `tensor_stages` (dequantised ones, no fewer), `parts`, `product` (CodeProduct:
/// Multiply or Detour), `score_registers`, `dequantise_registers`, `feed_registers` (TensorRoles;
/// 0: those that a work item begins with); `pair`: work items stand in twos, a cluster each, and
/// products are of a page of both, with half of the queries in the shared memory of each;
/// `all_rows` as there (IndexMatrix.h), for any number of rows. Products are exact, so are scores
/// whose sums fit FP32.
void emitTensorScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
                      const Schedule &schedule);

} // namespace m3c::kernel
