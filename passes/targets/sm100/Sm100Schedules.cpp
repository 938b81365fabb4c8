#include "passes/targets/sm100/Sm100Schedules.h"

#include "passes/targets/common/nvidia/NvidiaSchedules.h"

namespace m3c {

Schedule sm100Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  if (family == "block_topk")
    return {{"warps", 8}};
  // Rings leave room for tables and queries beside them.
  if (family == "index_score")
    return matrixScores(problem, {chip.facts.units, 184 * 1024});
  return matrixAttention(problem, {chip.facts.units, 168 * 1024});
}

} // namespace m3c
