// What a work item of attention in tensor memory has summed, and the sums of several parts.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"
#include "passes/kernel/families/cache/TensorTiles.h"

#include <limits>

namespace m3c::kernel {

/// The score of no key.
inline constexpr float lowestScore = -std::numeric_limits<float>::infinity();

/// Of a head: weighted values of all dims, the sum of their weights, the score that these are
/// under.
struct TensorSum {
  Value values, weight, largest;
};

/// Sums of the query heads of a KV head: the work item's own in shared memory, those of parts in
/// slots of global memory.
class TensorSums {
public:
  TensorSums(KernelBuilder &kb, const AttentionShape &shape, const AttentionParameters &parameters)
      : kb(kb), shape(shape), partValues(parameters.partValues), partRows(parameters.partRows) {}
  void allocate();

  /// The weights that a warp's lanes have summed, and the largest scores, alike in all warps. Who
  /// reads them does behind a barrier; so do those who read `values` [heads, dims].
  void storeRows(TensorTiles &t, Value warp, Value weights, Value largest);
  /// Of the work item.
  Value load(Value head) { return load(values, {head, kb.index(0)}); }
  Value weight(Value head);
  TensorSum own(Value head);
  /// Leaves a sum in a slot.
  void keep(Value slot, Value head, const TensorSum &sum);
  /// Adds those of `count` slots from `base` on in their order.
  TensorSum merged(Value base, Value count, Value head);
  /// Nothing where there is no weight.
  Value mean(Value values, Value weight);
  /// Of scores, as powers of two take them.
  Value scale();

  Value values;

private:
  Value load(Value view, mlir::ValueRange indices);

  KernelBuilder &kb;
  const AttentionShape &shape;
  Value weights, largestScores, partValues, partRows;
};

} // namespace m3c::kernel
