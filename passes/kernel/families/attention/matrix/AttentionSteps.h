// The online softmax of one row of queries on matrix instructions: scores of some tokens come in,
// the tokens' values are added with their weights.
#pragma once

#include "passes/kernel/families/attention/PartedAttention.h"
#include "passes/kernel/families/cache/MatrixTiles.h"

#include <numbers>

namespace m3c::kernel {

/// Tokens that a warp multiplies at a time, and warps that share a page.
inline constexpr int64_t stepTokens = 32, pageWarps = m3::blockTokens / stepTokens;

/// What a warp has summed of a row: values [16, dims], weights [16, columns], the largest score.
struct AttentionState {
  Value values, weights, largest;
  Values all() const { return {values, weights, largest}; }
  static AttentionState of(mlir::ValueRange values) { return {values[0], values[1], values[2]}; }
};

class AttentionSteps {
public:
  AttentionSteps(KernelBuilder &kb, MatrixTiles &m, const AttentionShape &shape)
      : kb(kb), m(m), shape(shape), operandTokens(m.unit.k) {}

  /// Of no token.
  AttentionState nothing();
  /// Which token each column of an operand of keys is; call it before the loop over steps.
  void nameTokens() { token = m.tokensOfColumns(); }
  int64_t operands() const { return stepTokens / operandTokens; }
  /// The first token of an operand of the step that begins at `first`.
  Value tokenOf(Value first, int64_t operand) { return kb.add(first, operand * operandTokens); }
  /// Scores of queries, the sum over the parts of their operands, with the keys of one operand.
  Value scores(mlir::ValueRange queries, Value keys, int64_t operand, Value seen) {
    return visible(product(queries, keys), operand, seen);
  }
  Value product(mlir::ValueRange queries, Value keys);
  /// The scores of one operand without those of tokens from `seen` (of the step) on. `seen` null:
  /// all are seen.
  Value visible(Value scores, int64_t operand, Value seen);
  /// Adds the tokens of a step. `values` gives those of an operand, zero from `limit` on.
  AttentionState add(AttentionState state, mlir::ValueRange scores, Value seen,
                     llvm::function_ref<Value(int64_t operand, Value limit)> values);
  /// Tokens of an operand that are seen, of `seen` of the step.
  Value limitOf(Value seen, int64_t operand);
  /// The weighted mean of some columns, zero where no token was seen; to the rows of `out` from
  /// `head` on, columns from group `group` on.
  Value mean(Value values, Value weights);
  void store(Value mean, Value out, Value head, Value group);

  /// Of scores, to powers of two.
  double scaleBits() const { return shape.scale * std::numbers::log2e; }

protected:
  KernelBuilder &kb;
  MatrixTiles &m;
  const AttentionShape &shape;

private:
  Value scale() { return kb.f32(scaleBits()); }
  AttentionState rescaled(AttentionState state, mlir::ValueRange scores);

  const int64_t operandTokens; ///< of one operand of values
  Value token;
};

} // namespace m3c::kernel
