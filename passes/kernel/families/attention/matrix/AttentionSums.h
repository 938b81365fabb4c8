// Sums of attention that warps or work items leave in memory, and their sum.
#pragma once

#include "passes/kernel/families/cache/MatrixTiles.h"

#include <functional>
#include <limits>

namespace m3c::kernel {

/// The largest score where there was no key.
inline constexpr float noScore = -std::numeric_limits<float>::infinity();

/// Sums of an accumulator in memory, in the order of registers in slots, and of its rows
/// [slots, 2, 16] the largest score and the sum of weights.
struct SumsView {
  Value values, rows;
};

/// What is added: `at` gives the sums of source i and their slot; the first `count` of `most` are
/// filled.
struct SumsSources {
  std::function<std::pair<SumsView, Value>(Value i)> at;
  Value count;
  int64_t most;
};

using SumsBody = std::function<void(Value group, Value values, Value weights, Value largest)>;

class AttentionSums {
public:
  /// `scale`: of scores, to powers of two; `warps`: that merge, of a work item.
  AttentionSums(KernelBuilder &kb, MatrixTiles &m, int64_t dims, double scale, int64_t warps)
      : kb(kb), m(m), dims(dims), warps(warps), scale(scale) {}

  void store(SumsView to, Value slot, Value group, Value acc);
  void storeRows(SumsView to, Value slot, Value largest, Value weights);
  /// Slots from `base` on.
  SumsSources slots(SumsView sums, Value base, Value count, int64_t most);
  /// Columns that a warp merges at a time.
  int64_t columns() const;
  /// Calls `body` with the sum of all sources, two groups of columns from `group` on: every warp,
  /// of `sharers` work items, has its own.
  void merge(const SumsSources &from, Value sharer, int64_t sharers, const SumsBody &body);

private:
  using EachBody =
      llvm::function_ref<Values(SumsView sums, Value slot, Value filled, mlir::ValueRange carried)>;

  Value loadRows(SumsView from, Value slot, int64_t which);
  Values eachSource(const SumsSources &from, mlir::ValueRange start, EachBody body);
  Values added(SumsView from, Value slot, Value filled, Value group, Value largest,
               mlir::ValueRange carried);

  KernelBuilder &kb;
  MatrixTiles &m;
  const int64_t dims, warps;
  const double scale;
};

} // namespace m3c::kernel
