#include "passes/targets/x86/X86Schedules.h"

#include <algorithm>

namespace m3c {
namespace {

/// Products with a weight. Few rows stream the codes through registers once; many rows dequantise a
/// chunk of a panel into a ring that stays in the first-level cache and multiply it with a tile of
/// rows. Register tiles: `rows` × 16·`panels` accumulators, one operand vector per panel vector and
/// one broadcast must fit the registers (16 of 8 lanes: 6 × 2 + 2 + 1; 32 of 16 lanes: 12 × 2 + 2 +
/// 1).
Schedule product(const Schedule &problem, const Chip &chip) {
  bool wide = chip.lanes == 16;
  int64_t rows = problem.at("rows");
  if (rows <= 8) { // eight accumulator vectors in flight hide the latency of a fused multiply-add
    int64_t tileRows = std::min<int64_t>(rows, wide ? 8 : 4);
    return {{"ring", 0},
            {"rows", tileRows},
            {"panels", std::max<int64_t>(1, (wide ? 8 : 4) / tileRows)}};
  }
  return {{"ring", 1},        {"stages", 1},   {"rows", wide ? 12 : 6}, {"panels", wide ? 2 : 1},
          {"row_block", 192}, {"k_chunk", 256}};
}

} // namespace

Schedule x86Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  if (family == "project" || family == "gate_up" || family == "qkv_insert" ||
      family == "experts_up" || family == "experts_down")
    return product(problem, chip);
  if (family == "index_score")
    return {{"keys", chip.lanes == 16 ? 4 : 2}, {"blocks_per_item", 4}};
  if (family == "attention")
    return {{"keys", chip.lanes == 16 ? 4 : 2}};
  return {};
}

} // namespace m3c
