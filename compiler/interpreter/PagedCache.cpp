#include "compiler/interpreter/PagedCache.h"

#include "runtime/base/Error.h"

#include <limits>

#include <fmt/format.h>

namespace m3c::interpreter {

void PagedCache::write(Lane lane, int64_t layer, int32_t page, int64_t token, int64_t head,
                       std::span<const double> values) {
  int64_t dim = laneDim(lane);
  std::vector<double> &slot = slots[{lane, layer, page, head}];
  if (slot.empty()) // tokens not written yet are NaN: reading one shows
    slot.assign(size_t(pageTokens * dim), std::numeric_limits<double>::quiet_NaN());
  std::span<double> place(slot.data() + token * dim, size_t(dim));
  std::copy(values.begin(), values.end(), place.begin());
  roundValues(dims.stored, place);
}

const double *PagedCache::read(Lane lane, int64_t layer, int32_t page, int64_t head) const {
  auto slot = slots.find({lane, layer, page, head});
  if (slot == slots.end())
    throw Error("the step reads cached tokens that were never written",
                fmt::format("layer {}, page {}", layer, page), "", "write the page first");
  return slot->second.data();
}

} // namespace m3c::interpreter
