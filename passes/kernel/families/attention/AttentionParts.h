// Softmax sums of attention, and how they are put together from parts.
//
// The pages that a row attends to, ascending, are cut into parts of four. Each part is an online
// softmax of its own; parts are added in ascending order. Where the cuts are depends on the row
// alone, so it does not matter whether one work item does all parts or each is done elsewhere.
#pragma once

#include "passes/kernel/families/cache/CachePages.h"

namespace m3c::kernel {

/// Pages of a part.
inline constexpr int64_t partPages = 4;

struct AttentionShape {
  int64_t heads; ///< query heads
  int64_t kvHeads, dims;
  int64_t selected; ///< blocks of a selection, 0 = dense
  double scale;
  int64_t group() const { return heads / kvHeads; }
};

/// Rows of sums in a view [slots, width(dims)] of f32: weighted values, then the largest score so
/// far and the sum of the weights.
class SoftmaxSums {
public:
  SoftmaxSums(KernelBuilder &kb, Value view, int64_t dims) : kb(kb), view(view), dims(dims) {}
  static int64_t width(int64_t dims) { return dims + 16; }

  Value largest(Value slot) { return kb.loadScalar(view, {slot, kb.index(dims)}); }
  Value weight(Value slot) { return kb.loadScalar(view, {slot, kb.index(dims + 1)}); }
  void setLargest(Value slot, Value value) { kb.storeScalar(value, view, {slot, kb.index(dims)}); }
  void setWeight(Value slot, Value value) {
    kb.storeScalar(value, view, {slot, kb.index(dims + 1)});
  }

  void clear(Value slot);
  /// Copies a row.
  void copy(Value slot, SoftmaxSums &from, Value fromSlot);
  /// Adds a part: both sides are rescaled to the larger maximum.
  void add(Value slot, SoftmaxSums &part, Value partSlot);
  /// The weighted mean of a row in the order of dims, to `out` [rows, heads, dims].
  void storeMean(Value slot, const CachePages &cache, Value out, Value row, Value head);

  KernelBuilder &kb;
  Value view;

private:
  void eachChunk(llvm::function_ref<void(Value)> body);
  int64_t dims;
};

/// Parts that every row has room for: ⌈selected / 4⌉, or of a whole page-table row.
Value partsOfRow(KernelBuilder &kb, BatchRows &batch, int64_t selected);

/// The type of the sums of split parts [slots, width]: slot ((row · heads) + head) · partsOfRow +
/// part.
Type partsType(mlir::MLIRContext *context, const AttentionShape &shape);

/// Launches the kernel that adds the parts of each row and head; rows of one part are left alone.
/// Arguments: batch rows, parts, (selection); `mean` of elements `out` follows.
void emitMerge(StepLowering &step, const CachePages &cache, const AttentionShape &shape, Type out,
               llvm::SmallVector<LaunchArgument> arguments, Value mean, llvm::StringRef label);

} // namespace m3c::kernel
