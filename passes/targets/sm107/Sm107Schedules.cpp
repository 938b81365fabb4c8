#include "passes/targets/sm107/Sm107Schedules.h"

#include "passes/targets/common/gpu/FlatRing.h"
#include "passes/targets/common/gpu/PlainSchedules.h"
#include "passes/targets/common/nvidia/NvidiaSchedules.h"

#include <algorithm>

namespace m3c {

/// Work items of a multiprocessor: each has 1 KiB of its memory for the system, and tables and
/// queries beside its ring. Scores of up to eight columns and attention keep to a third of the
/// registers, 96 for six warps and 128 for five; with its pages laid end to end attention would
/// leave 16 bytes in memory then (NVRTC 13.5), and keeps to half of them.
static constexpr int64_t scorers = 3, scorerRing = 98 * 1024;
static constexpr int64_t attenders = 3, attenderRing = 98 * 1024;
static constexpr int64_t flatAttenders = 2, flatRing = 148 * 1024;

/// Scores of four groups of columns: the queries of a warp take half of its registers. One work
/// item, whose loading warps give some of theirs to twelve that score: with 128 each 96 bytes would
/// lie in memory, and of warps with 168 there would be eleven (NVRTC 13.5).
static Schedule wideScores(const Schedule &problem, const Chip &chip) {
  Schedule schedule = matrixScores(problem, {chip.facts.units, 184 * 1024});
  constexpr int64_t loaders = 4;
  int64_t &stages = schedule["stages"];
  stages -= stages % loaders; // a stage is always one loader's
  schedule["consumers"] = std::min<int64_t>(12, stages);
  schedule["loaders"] = loaders;
  schedule["score_registers"] = 160;
  schedule["load_registers"] = 32;
  return schedule;
}

/// Keys in FP16, exact. Few query rows of one head: scales after the products, one fused
/// multiply-add for two sums instead of a product for two codes.
static Schedule scores(const Schedule &problem, const Chip &chip) {
  Schedule schedule = matrixScores(problem, {chip.facts.units * scorers, scorerRing});
  if (schedule.at("columns") > chip.matrix.columns) {
    schedule = wideScores(problem, chip);
  } else {
    schedule["consumers"] = 5;
    schedule["residents"] = scorers;
  }
  if (problem.at("cache_bits") == 4)
    // CodeProduct::Groups, Exact
    schedule["product"] = problem.at("rows") <= 4 && problem.at("heads") == 1 ? 4 : 3;
  return schedule;
}

/// Three work items of a multiprocessor, or two with flat parts, or of FP32 queries that are two
/// operands (FP8 pages), of which 8 bytes of a thread would lie in memory. Of 16 rows × 4 KV heads
/// × 16 pages a multiprocessor has 6 at most either way.
static Schedule attention(Schedule problem, const Chip &chip) {
  constexpr int64_t consumers = 4;
  int64_t units = chip.facts.units;
  const bool twice = problem.at("cache_bits") == 8 && problem.at("activation_bits") == 32;
  bool flat = flatPartsFor(problem, {units, flatAttenders, twice ? flatAttenders : attenders}) > 0;
  bool two = flat || twice;
  int64_t residents = two ? flatAttenders : attenders, ring = two ? flatRing : attenderRing;
  problem["flat"] = flat;
  PageChip items = {units * residents, ring, 1};
  items.flatBytes = ring;
  items.flatConsumers = consumers;
  Schedule schedule = matrixAttention(problem, items);
  schedule["consumers"] = consumers;
  schedule["residents"] = residents;
  return schedule;
}

Schedule sm107Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  if (family == "block_topk")
    return {{"warps", 8}};
  if (isOn(problem, "plain"))
    return family == "index_score" ? plainScores(problem) : plainAttention(problem);
  if (family == "index_score")
    return scores(problem, chip);
  return attention(problem, chip);
}

} // namespace m3c
