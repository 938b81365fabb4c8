#include "passes/targets/sm90/Sm90Schedules.h"

#include <algorithm>
#include <bit>

namespace m3c {
namespace {

/// Products by matrix instructions. Few rows are bound by the stream of weights: warps share K, as
/// many fragments under way as registers hold. Many rows fill 64 columns, warps side by side along
/// panels.
Schedule fragments(const Schedule &problem) {
  int64_t rows = problem.at("rows"), units = problem.at("k") / 64;
  int64_t tile = rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : 64;
  int64_t split = rows > 32 ? 2 : rows > 16 ? 4 : 8;
  while (split > 1 && split > units)
    split /= 2;
  int64_t columns = 8 / split, most = problem.at("weight_bits") == 16 ? 4 : 6;
  int64_t ahead = rows > 32 ? 1 : std::clamp<int64_t>(units / split, 1, most);
  return {{"rows", tile},     {"row_block", tile}, {"warps", 8},
          {"k_split", split}, {"ahead", ahead},    {"panels", columns * (rows > 32 ? 2 : 1)}};
}

/// A head of queries, keys or values is one work item: sixteen warps, two for each panel.
Schedule heads(const Schedule &problem) {
  Schedule schedule = fragments(problem);
  schedule["warps"] = 16;
  schedule["k_split"] = 2;
  schedule["panels"] = 8;
  schedule["ahead"] = problem.at("rows") > 32 ? 1 : 4;
  return schedule;
}

/// Products with a weight, one warp a work item, lanes along two panels of 16 outputs. Few rows
/// stream the codes through registers once; many are cut into blocks of 16 rows, so that a launch
/// has enough work items, and multiply a dequantised stage of the panels.
Schedule product(const Schedule &problem) {
  if (problem.at("activation_bits") == 16 && problem.at("weight_bits") <= 16 &&
      problem.at("k") % 64 == 0)
    return problem.count("heads") ? heads(problem) : fragments(problem);
  int64_t rows = problem.at("rows");
  Schedule few = {{"ring", 0}, {"ahead", 0}, {"rows", std::min<int64_t>(rows, 8)}, {"panels", 2}};
  if (problem.at("activation_bits") == 16) { // a router: few outputs, all of K
    few["k_warps"] = 16;
    few["row_block"] = few["rows"];
  }
  if (rows <= 8 || few.count("k_warps"))
    return few;
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
  // FP32 rows keep the order of additions of the CPU's kernels, so that their results are its bits.
  if (family == "rows" && problem.at("activation_bits") == 16)
    return {{"warps", 8}, {"chunk", 128}};
  if (family == "qkv_insert") {
    Schedule whole = problem;
    whole["heads"] = 1;
    return product(whole);
  }
  if (family == "project" || family == "gate_up")
    return product(problem);
  if (family == "experts_up" || family == "experts_down") {
    Schedule few = problem; // an expert has a small part of the rows
    few["rows"] = problem.at("rows") <= 64 ? std::min<int64_t>(problem.at("rows"), 8) : 16;
    return product(few);
  }
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
    schedule["split"] = schedule["rows"] == 1; // few rows: parts of four pages side by side
    return schedule;
  }
  return {};
}

} // namespace m3c
