// What the operations of the reference interpreter work on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <variant>
#include <vector>

namespace m3c::interpreter {

/// A dense row-major tensor: `reals` for floating-point element types, `ids` for i32.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> reals;
  std::vector<int32_t> ids;

  static Tensor ofReals(std::vector<int64_t> shape) {
    Tensor tensor{std::move(shape), {}, {}};
    tensor.reals.resize(size_t(tensor.elements()));
    return tensor;
  }
  static Tensor ofIds(std::vector<int64_t> shape, int32_t fill = 0) {
    Tensor tensor{std::move(shape), {}, {}};
    tensor.ids.resize(size_t(tensor.elements()), fill);
    return tensor;
  }
  int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<int64_t>());
  }
  int64_t rows() const { return shape[0]; }
  /// Elements of one row, over all further dimensions.
  int64_t width() const { return shape[0] ? elements() / shape[0] : 0; }
  double *row(int64_t r) { return reals.data() + r * width(); }
  const double *row(int64_t r) const { return reals.data() + r * width(); }
};

/// The rows of a step; the arrays of runtime/plan/plan.fbs BatchArray.
struct Batch {
  std::vector<int32_t> tokenIds;               ///< [rows]
  std::vector<int32_t> positions;              ///< [rows], absolute, 0-based
  std::vector<int32_t> sequenceOfRow;          ///< [rows], row of the page table
  std::vector<std::vector<int32_t>> pageTable; ///< [sequences][blocks], physical pages
  std::vector<int32_t> logitRows;

  int64_t rows() const { return int64_t(tokenIds.size()); }
  /// Blocks of the longest sequence that the rows need.
  int64_t blocks() const {
    int32_t last = 0;
    for (int32_t position : positions)
      last = std::max(last, position);
    return last / 128 + 1;
  }
};

class PagedCache;

/// A value of the IR. Tensors are shared, not copied, between operations.
using Value = std::variant<std::shared_ptr<const Tensor>, const Batch *, PagedCache *>;

inline Value makeValue(Tensor tensor) { return std::make_shared<const Tensor>(std::move(tensor)); }

} // namespace m3c::interpreter
