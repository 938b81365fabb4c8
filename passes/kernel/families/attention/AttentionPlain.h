// Attention printed wholly from tile: the plain sibling of the kernels on matrix instructions
// (matrix/AttentionMatrix.h) and in tensor memory (tensor/AttentionTensor.h).
//
// Per row, KV head and page, in ascending order of pages: products with the keys, online softmax,
// weighted sum of the values over ascending keys; parts of four pages are added in turn
// (AttentionParts.h). The schedule says how many rows share a dequantised page, and whether parts
// are work items of their own; the arithmetic of a row is the same in all of them.
#pragma once

#include "passes/kernel/families/attention/AttentionParts.h"

namespace m3c::kernel {

/// Whether the parts of a row are work items of their own; such a part belongs to one row.
bool splitsParts(const Schedule &schedule);

/// Parameters: batch rows, query [rows, heads, dims], pool (at the layer's K slot of head 0),
/// (selection [rows, KV heads, k]), out [rows, heads, dims], and where parts are split the sums of
/// parts (`partsType`). Schedule: `rows` of a tile, `keys`, `heads`, `value_heads`, `value_dims` of
/// register tiles, `lanes` of a vector, `ring` (stages; 0: none), `chunk` (tokens of a stage),
/// `split`.
void emitPlainAttention(KernelBuilder &kb, const CachePages &cache, const AttentionShape &shape,
                        const Schedule &schedule);

} // namespace m3c::kernel
