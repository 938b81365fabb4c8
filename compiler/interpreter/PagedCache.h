// The cache of keys, values and index keys as plain arrays, addressed through page tables as the
// runtime's is.
#pragma once

#include "compiler/interpreter/Rounding.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace m3c::interpreter {

struct CacheShape {
  int64_t layers = 0, kvHeads = 0, headDim = 0, indexDim = 0;
  Step stored = Step::None; ///< what a written value is rounded to, as it will be read back
};

enum class Lane { Key, Value, IndexKey };

class PagedCache {
public:
  static constexpr int64_t pageTokens = 128;

  explicit PagedCache(const CacheShape &shape) : dims(shape) {}
  const CacheShape &shape() const { return dims; }

  /// Rounds and stores one vector; `head` is 0 for the index key. Pages appear when first written.
  void write(Lane lane, int64_t layer, int32_t page, int64_t token, int64_t head,
             std::span<const double> values);
  /// The 128 vectors of a page, [token][dim], as they enter the arithmetic. Throws Error when
  /// nothing of the page was written: a read of undefined keys is a fault of the program.
  const double *read(Lane lane, int64_t layer, int32_t page, int64_t head) const;

private:
  struct Slot {
    Lane lane;
    int64_t layer;
    int32_t page;
    int64_t head;
    auto operator<=>(const Slot &) const = default;
  };
  int64_t laneDim(Lane lane) const { return lane == Lane::IndexKey ? dims.indexDim : dims.headDim; }

  CacheShape dims;
  std::map<Slot, std::vector<double>> slots;
};

} // namespace m3c::interpreter
