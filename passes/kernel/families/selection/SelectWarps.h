// Choice of the k best blocks by several warps. Its plain sibling is the kernel of one warp in
// SelectBlocks.cpp, which also serves rows whose candidates outgrow the list.
#pragma once

#include "passes/kernel/KernelBuilder.h"

namespace m3c::kernel {

/// Blocks that a warp looks at together.
inline constexpr int64_t selectChunk = 128;

/// The integers that stand for scores: larger is better, and equal ones are told apart by their
/// block.
struct SelectionKeys {
  static constexpr int64_t none = INT32_MIN, notANumber = INT32_MIN + 1, forced = INT32_MAX;

  KernelBuilder &kb;
  Value scores, base, blocks; ///< `base`: of the row and head; `blocks`: to its own one
  int64_t init, local;        ///< blocks that are always chosen

  /// Of blocks first … first + rows · lanes − 1: a tile [rows, lanes], `none` past the own block.
  Value of(Value first, int64_t rows, int64_t lanes) const;
};

/// Emits the choice of one work item, all of whose warps run this; k is at most 32. Each lane keeps
/// the largest integer of its blocks; the k-th largest of these, over all warps, is no more than
/// the k-th largest integer. Only what exceeds it, and the first k that equal it, is put in a list;
/// a candidate is chosen if fewer than k of the list come before it. `whole` is called by one warp
/// where the list is too long.
void emitSelectByWarps(const SelectionKeys &keys, int64_t k, Value selection, Value at,
                       llvm::function_ref<void()> whole);

} // namespace m3c::kernel
