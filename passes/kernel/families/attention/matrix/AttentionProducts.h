// The products of attention of a row by one warp: scores of a page's tokens, their softmax, the
// weighted values. How pages are shared out is others' (AttentionMatrix.cpp, AttentionFlat.cpp).
#pragma once

#include "passes/kernel/families/attention/matrix/AttentionSteps.h"
#include "passes/kernel/families/attention/matrix/AttentionSums.h"

namespace m3c::kernel {

/// Steps whose queries and pages are in buffers of the work item.
class AttentionProducts : public AttentionSteps {
public:
  AttentionProducts(KernelBuilder &kb, MatrixTiles &m, const CachePages &cache,
                    const AttentionShape &shape, const Schedule &schedule)
      : AttentionSteps(kb, m, shape), cache(cache), product(productOf(schedule)) {}

  /// Buffers of the work item: the table of codes where there is one, and a row's queries, which
  /// are rows of `query`.
  void allocate(Value query);
  /// By all warps of the role.
  void fillTable();
  /// By one warp: of the heads from row `head` on; others see them after a barrier.
  void loadQueries(Value head);

  /// Adds the tokens from `first` on of a stage, those below `seen` (also counted from `first` on).
  Values added(Value stage, Value first, Value seen, mlir::ValueRange state);

private:
  Value productOfParts(Value keys);
  Values step(Value stage, Value first, Value seen, AttentionState state);

  const CachePages &cache;
  const CodeProduct product;
  Value table, query, queries;
};

} // namespace m3c::kernel
