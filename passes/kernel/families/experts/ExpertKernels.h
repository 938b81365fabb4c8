// Kernels of the family "experts", and what they share.
#pragma once

#include "passes/kernel/StepLowering.h"
#include "passes/kernel/families/experts/Groups.h"
#include "passes/kernel/products/Product.h"

namespace m3c::kernel {

/// Arguments of the family's launches.

/// Sizes of one MoE layer and the packed weights; `shared*` are absent where there is no shared
/// expert.
struct MoeShape {
  int64_t experts = 0, topK = 0, hidden = 0;
  PackedWeight up, down;
  std::optional<PackedWeight> sharedUp, sharedDown;
  double alpha = 0, limit = 0;
  Type element;  ///< of the rows and activations; each expert's output is rounded alike
  Type result;   ///< of the sum
  Type residual; ///< of the rows that the sum starts from; null: from zero

  bool rounds() const { return !element.isF32(); }

  int64_t width() const { return up.outputs / 2; }
  int64_t sharedWidth() const { return sharedUp ? sharedUp->outputs / 2 : 0; }
};

/// Parameters: counts, groups, x [rows,H], gathered [rows·k,H]. One work item per entry.
tile::KernelOp buildExpertGather(StepLowering &step, llvm::StringRef name, const MoeShape &moe,
                                 const Schedule &schedule);

/// Parameters: counts, groups, x (rows, or gathered rows), routed weight…, z [rows·k,I], and with a
/// shared expert: x [rows,H], its weight…, zs [rows,Is]. Grid: panels; the shared expert, if there
/// is one, and active experts.
tile::KernelOp buildExpertsUp(StepLowering &step, llvm::StringRef name, const MoeShape &moe,
                              const Schedule &routed, const Schedule &shared, bool gathered);

/// One work item after the other adds the experts of its columns. Parameters: counts, groups,
/// weights [rows·k], z [rows·k,I], (residual [rows,H],) routed weight…, out [rows,H], and with a
/// shared expert: zs [rows,Is], its weight…; where out holds BF16, last sums [rows,H] of f32. Grid:
/// panels.
tile::KernelOp buildExpertsDown(StepLowering &step, llvm::StringRef name, const MoeShape &moe,
                                const Schedule &routed, const Schedule &shared);

/// Each expert is a work item of its own; the last one of some columns adds them. Parameters:
/// counts, groups, weights [rows·k], z [rows·k,I], (residual [rows,H],) routed weight…, out
/// [rows,H], y [rows·k,H], counters, and with a shared expert: zs [rows,Is], its weight…, ys
/// [rows,H]. Grid: panels; the shared expert, if there is one, and active experts.
tile::KernelOp buildExpertsDownApart(StepLowering &step, llvm::StringRef name, const MoeShape &moe,
                                     const Schedule &routed, const Schedule &shared);

/// The outputs of experts where they wait for their sum: weights [rows·k], routed [rows·k,H],
/// residual and shared [rows,H] or null.
struct ExpertOutputs {
  Value weights, routed, residual, shared;
  /// Columns of a row: the residual, experts in the order of their ids, the shared one.
  Value sum(KernelBuilder &kb, int64_t topK, Value row, Value col, int64_t cols) const;
};

/// A product with gate and up panels of an expert, `panel` the first in it, with SwiGLU to columns
/// of z.
void emitUpProduct(KernelBuilder &kb, const Product &product, Value panel, Value z, Value expert,
                   const MoeShape &moe);
/// A product with down panels, each row stored to y where its entry of the router's choice stands;
/// `scale` may be null.
void emitDownProduct(KernelBuilder &kb, const Product &product, Value scale, Value y, Value col,
                     Groups &groups);

/// Rows [begin, end) in blocks as large as the partial sums that wait in shared memory.
void eachRowBlock(KernelBuilder &kb, Value begin, Value end, const Schedule &schedule,
                  llvm::function_ref<void(Value blockBegin, Value blockEnd)> body);

} // namespace m3c::kernel
