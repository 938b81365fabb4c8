#include "passes/targets/sm107/Sm107Schedules.h"

#include "passes/targets/common/nvidia/NvidiaSchedules.h"

namespace m3c {

/// Work items of a multiprocessor: each has 1 KiB of its memory for the system, and tables and
/// queries beside its ring. Scores keep to a third of the registers, attention to half of them.
static constexpr int64_t scorers = 3, scorerRing = 98 * 1024;
static constexpr int64_t attenders = 2, attenderRing = 148 * 1024;

/// Keys in FP16, exact. Few query rows of one head: scales after the products, one fused
/// multiply-add for two sums instead of a product for two codes.
static Schedule scores(const Schedule &problem, const Chip &chip) {
  Schedule schedule = matrixScores(problem, {chip.facts.units * scorers, scorerRing});
  schedule["consumers"] = 5;
  schedule["residents"] = scorers;
  if (problem.at("cache_bits") == 4)
    // CodeProduct::Groups, Exact
    schedule["product"] = problem.at("rows") <= 4 && problem.at("heads") == 1 ? 4 : 3;
  return schedule;
}

Schedule sm107Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  if (family == "block_topk")
    return {{"warps", 8}};
  if (family == "index_score")
    return scores(problem, chip);
  Schedule schedule = matrixAttention(problem, {chip.facts.units * attenders, attenderRing, 1});
  schedule["consumers"] = 4;
  schedule["residents"] = attenders;
  return schedule;
}

} // namespace m3c
