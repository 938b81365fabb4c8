// Attention of single rows in tensor memory: keys, then values, are the 128 rows of a product, the
// query heads of a KV head its columns. The pages of a row are cut into parts, each a work item,
// and the last part to arrive adds all of them. Its plain siblings are the kernels of
// AttentionMatrix.cpp and AttentionPlain.cpp.
//
// Of a page the scores S = K q are 128 tokens × heads, keys E4M3 in tensor memory. Softmax goes
// along the lanes. The weights, FP16, are the right operand of O = V' p, 128 dims × heads, whose
// left one is the page's values in FP16 as they lie in shared memory, tokens one after the other:
// no transpose.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"
#include "passes/kernel/families/cache/TensorTiles.h"

namespace m3c::kernel {

/// Whether this kernel does it: the cache is NVFP4 on the E4M3 grid, the query heads of a KV head
/// fit sixteen columns, queries are E4M3 values in F32 or BF16.
bool tensorAttentionServes(const AttentionShape &shape, m3::CacheType cache, Value query);

/// Launches it. Schedule: `tensor_stages` (pages dequantised, in flight), `stages` (raw pages, no
/// more than those), `parts` (of a row and KV head; with `flat` of all rows, of which `merge` are
/// added at once), `product` (CodeProduct: Multiply or Detour), `soften_registers`,
/// `dequantise_registers`, `feed_registers` (TensorRoles; 0: those that a work item begins with).
mlir::LogicalResult emitTensorAttention(StepLowering &step, const CachePages &cache,
                                        const AttentionShape &shape, const Schedule &schedule,
                                        const AttentionOperands &operands);

} // namespace m3c::kernel
