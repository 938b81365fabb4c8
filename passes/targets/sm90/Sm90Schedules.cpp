#include "passes/targets/sm90/Sm90Schedules.h"

#include <algorithm>
#include <bit>

namespace m3c {
namespace {

/// Products with a weight, one warp a work item, lanes along two panels of 16 outputs. Few rows
/// stream the codes through registers once; many are cut into blocks of 16 rows, so that a launch
/// has enough work items, and multiply a dequantised stage of the panels.
Schedule product(const Schedule &problem) {
  int64_t rows = problem.at("rows");
  if (rows <= 8)
    return {{"ring", 0}, {"ahead", 0}, {"rows", rows}, {"panels", 2}};
  return {{"ring", 1},   {"stages", 1},     {"rows", 8},
          {"panels", 2}, {"row_block", 16}, {"k_chunk", 64}};
}

/// Products of queries and keys: groups of 16 dimensions lie along half a warp.
Schedule cacheProduct(int64_t rows, int64_t heads) {
  int64_t shared = rows < 16 ? 1 : std::clamp<int64_t>(16 / heads, 1, 4);
  Schedule schedule = {{"rows", shared}, {"chunk", 32}, {"lanes", 16}, {"ring", 1}, {"heads", 2}};
  while (heads % schedule["heads"])
    schedule["heads"] /= 2;
  schedule["keys"] = int64_t(std::bit_floor(uint64_t(16 / schedule["heads"])));
  return schedule;
}

} // namespace

Schedule sm90Schedule(llvm::StringRef family, const Schedule &problem, const Chip &) {
  if (family == "project" || family == "gate_up" || family == "qkv_insert" ||
      family == "experts_up" || family == "experts_down")
    return product(problem);
  if (family == "index_score") {
    Schedule schedule = cacheProduct(problem.at("rows"), problem.at("heads"));
    schedule["blocks_per_item"] = 1;
    return schedule;
  }
  if (family == "attention") {
    Schedule schedule = cacheProduct(problem.at("rows"), problem.at("group"));
    schedule["value_heads"] = 4;
    while (problem.at("group") % schedule["value_heads"])
      schedule["value_heads"] /= 2;
    schedule["value_dims"] = 32;
    return schedule;
  }
  return {};
}

} // namespace m3c
