#include "passes/targets/common/gpu/PlainSchedules.h"

#include <algorithm>
#include <bit>

namespace m3c {

/// Products of queries and keys: groups of 16 dimensions lie along sixteen lanes.
static Schedule cacheProduct(int64_t rows, int64_t heads) {
  int64_t shared = rows < 16 ? 1 : std::clamp<int64_t>(16 / heads, 1, 4);
  Schedule schedule = {{"rows", shared}, {"chunk", 32}, {"lanes", 16}, {"ring", 1}, {"heads", 2}};
  while (heads % schedule["heads"])
    schedule["heads"] /= 2;
  schedule["keys"] = int64_t(std::bit_floor(uint64_t(16 / schedule["heads"])));
  return schedule;
}

Schedule plainScores(const Schedule &problem) {
  Schedule schedule = cacheProduct(problem.at("rows"), problem.at("heads"));
  schedule["blocks_per_item"] = 1;
  return schedule;
}

Schedule plainAttention(const Schedule &problem) {
  Schedule schedule = cacheProduct(problem.at("rows"), problem.at("group"));
  schedule["value_heads"] = 4;
  while (problem.at("group") % schedule["value_heads"])
    schedule["value_heads"] /= 2;
  schedule["value_dims"] = 32;
  schedule["split"] = 0;
  return schedule;
}

} // namespace m3c
