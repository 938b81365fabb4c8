#include "passes/targets/common/nvidia/Incomplete.h"

namespace m3c {

bool DecodeTarget::emits(llvm::StringRef family, const Schedule &problem) const {
  constexpr int64_t mostRows = 16; // of a decode step; longer ones want kernels that share pages
  if (problem.at("rows") > mostRows)
    return false;
  if (family == "block_topk")
    return problem.at("k") <= 32; // a lane for each choice
  return (family == "index_score" || family == "attention") &&
         (problem.at("matrix") || isOn(problem, "plain"));
}

} // namespace m3c
