// The launch of attention whose parts of a row are work items, the last of which adds them: what
// the kernels on matrix instructions and in tensor memory have alike.
#pragma once

#include "passes/kernel/families/attention/AttentionParts.h"

namespace m3c::kernel {

/// Query heads of a KV head that a work item has room for.
inline constexpr int64_t attentionHeads = 16;
/// A maximum that grows by less than 2^this is left: weights then go up to 2^this, which neither
/// FP16 nor the FP32 sums mind, and sums are seldom rescaled.
inline constexpr double slackBits = 8;

struct AttentionOperands {
  RowBuffer query;
  int64_t poolOffset; ///< of the layer's K slot of head 0
  Value selection;    ///< null: dense
  RowBuffer mean;
  std::string label;
};

/// Whether the pages of all rows are cut into parts together (FlatRows.h), a schedule's `flat`;
/// else those of each row are.
bool isFlat(const Schedule &schedule);
/// Parts whose sums one work item adds, a schedule's `merge`; without it all.
int64_t fanOf(const Schedule &schedule);

/// The `selected` choices of a row and KV head from `at` on, one in each lane of a warp [1, 32] of
/// i32, the last repeated; and how many of them name a page, which −1 does not (index).
Value loadChoices(KernelBuilder &kb, Value selection, Value at, int64_t selected);
Value countChoices(KernelBuilder &kb, Value choices, int64_t selected);

/// What parts leave in memory, of each row, or tile of rows, and KV head.
struct PartMemory {
  int64_t slots, counters;
  /// Sizes of the values in a slot, attentionHeads · dims numbers; the largest score and the sum of
  /// the weights of each head stand beside them.
  llvm::SmallVector<int64_t> values;
};

/// Parameters of the kernel after the batch rows; the last three are null without PartMemory.
struct AttentionParameters {
  Value query;                          ///< [rows · heads, dims]
  Value pool;                           ///< bytes
  Value selection;                      ///< null: dense
  Value out;                            ///< [rows · heads, dims]
  Value partValues, partRows, arrivals; ///< [slots, values…], [slots, 2, heads], [counters]
};

/// The name of an attention kernel with a schedule; `elements` are those of query and result.
std::string attentionName(const CachePages &cache, const AttentionShape &shape,
                          llvm::ArrayRef<Type> elements, const Schedule &schedule);

/// Launches the kernel whose body `emit` makes. Grid: `parts` of the schedule, KV heads, rows or
/// tiles of `tileRows`.
mlir::LogicalResult emitPartedAttention(
    StepLowering &step, const CachePages &cache, const AttentionShape &shape,
    const Schedule &schedule, const AttentionOperands &operands,
    const std::optional<PartMemory> &memory,
    llvm::function_ref<void(KernelBuilder &kb, const AttentionParameters &parameters)> emit,
    int64_t tileRows = 1);

} // namespace m3c::kernel
