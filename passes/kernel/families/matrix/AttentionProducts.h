// The products of attention of a row by one warp: scores of a page's tokens, their softmax, the
// weighted values. How pages are shared out is others' (AttentionMatrix.cpp, AttentionFlat.cpp).
#pragma once

#include "passes/kernel/families/PartedAttention.h"
#include "passes/kernel/families/matrix/AttentionSums.h"

#include <numbers>

namespace m3c::kernel {

/// Tokens that a warp multiplies at a time, and warps that share a page.
inline constexpr int64_t stepTokens = 32, pageWarps = m3::blockTokens / stepTokens;

class AttentionProducts {
public:
  AttentionProducts(KernelBuilder &kb, MatrixTiles &m, const CachePages &cache,
                    const AttentionShape &shape, const Schedule &schedule)
      : kb(kb), m(m), cache(cache), shape(shape), product(productOf(schedule)),
        operandTokens(m.unit.k) {}

  /// What a warp has summed of a row.
  struct State {
    Value values, weights, largest;
    llvm::SmallVector<Value> all() const { return {values, weights, largest}; }
    static State of(mlir::ValueRange values) { return {values[0], values[1], values[2]}; }
  };

  /// Buffers of the work item: the table of codes where there is one, and a row's queries.
  void allocate();
  /// By all warps of the role.
  void fillTable();
  /// By one warp: of the heads from row `head` of `query` on; others see them after a barrier.
  void loadQueries(Value query, Value head);
  /// Once in a warp, before it adds.
  void nameTokens() { token = m.tokensOfColumns(); }

  State none();
  /// Adds the tokens from `first` on of a stage, those below `seen` (also counted from `first` on).
  Values added(Value stage, Value first, Value seen, mlir::ValueRange state);
  /// The weighted mean of some columns, zero where no token was seen; to the rows of `out` from
  /// `head` on, columns from group `group` on.
  Value mean(Value values, Value weights);
  void store(Value mean, Value out, Value head, Value group);

  /// Of scores, to powers of two.
  double scaleBits() const { return shape.scale * std::numbers::log2e; }

private:
  Values step(Value stage, Value first, Value seen, State state);
  Value masked(Value score, Value seen);
  State rescaled(State state, mlir::ValueRange scores);
  Value scale() { return kb.f32(scaleBits()); }
  Values zeros(size_t count) { return Values(count, kb.index(0)); }

  KernelBuilder &kb;
  MatrixTiles &m;
  const CachePages &cache;
  const AttentionShape &shape;
  const CodeProduct product;
  const int64_t operandTokens; ///< of one operand of values
  Value table, queries, token;
};

} // namespace m3c::kernel
