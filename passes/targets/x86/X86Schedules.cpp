#include "passes/targets/x86/X86Schedules.h"

#include <algorithm>
#include <bit>

namespace m3c {
namespace {

/// Products with a weight. Few rows stream the codes through registers once, with prefetches 8 KiB
/// ahead, `ahead` words of 64 bytes for each panel. Many rows dequantise a chunk of the panels into
/// a ring that stays in the first-level cache (32 KiB wide, 16 KiB narrow) and multiply it with a
/// tile of rows. Register tiles: `rows` × 16·`panels` accumulators, one operand vector per panel
/// vector and one broadcast must fit the registers (16 of 8 lanes: 6 × 2 + 2 + 1; 32 of 16 lanes: 6
/// × 4 + 4 + 1). Six rows leave few idle ones at the end of an expert's rows.
Schedule product(const Schedule &problem, const Chip &chip) {
  bool wide = chip.lanes == 16;
  int64_t rows = problem.at("rows");
  if (rows <= 8) {
    // Eight accumulator vectors in flight hide the latency of a fused multiply-add. One row of 8
    // lanes has four: decoding takes longer than that latency, and more would not stay in
    // registers.
    int64_t tileRows = std::min<int64_t>(rows, wide ? 8 : 4);
    int64_t panels = wide ? 8 / tileRows : rows == 1 ? 2 : 4 / tileRows;
    Schedule schedule = {
        {"ring", 0}, {"ahead", 128 / panels}, {"rows", tileRows}, {"panels", panels}};
    // Decoding E2M1 by table look-ups takes most of 16 registers: two vectors of outputs at a time.
    // It reads so slowly that half of the distance is enough, and a stream starts sooner.
    if (!wide && tileRows == 1 && problem.at("weight_bits") == 4) {
      schedule["columns"] = 2 * chip.lanes;
      schedule["ahead"] /= 2;
    }
    // BF16 rows are widened where a tile of them fits beside what else is on chip.
    if (problem.at("activation_bits") == 16)
      schedule["widen"] = tileRows > 1 && 4 * tileRows * problem.at("k") <= chip.sharedBytes / 2;
    return schedule;
  }
  return {{"ring", 1},        {"stages", 1},
          {"rows", 6},        {"panels", wide ? 4 : 1},
          {"row_block", 192}, {"k_chunk", wide ? 128 : 256}};
}

/// A product of one row alone in its launch: fewer panels make more work items, which end closer
/// together, and fewer streams. Codes of a byte or more leave time enough between the additions of
/// a sum.
Schedule lone(const Schedule &problem, const Chip &chip) {
  Schedule schedule = product(problem, chip);
  if (chip.lanes == 16 && problem.at("rows") == 1 && problem.at("weight_bits") > 4) {
    schedule["panels"] = 4;
    schedule["ahead"] = 128 / 4;
  }
  return schedule;
}

/// The wide tile of many rows is measured, and nothing else than it stands in its kernel.
Schedule project(const Schedule &problem, const Chip &chip) {
  Schedule schedule = lone(problem, chip);
  if (chip.lanes == 16 && schedule.at("ring") && problem.at("activation_bits") == 32)
    schedule[tunedMark] = 1;
  return schedule;
}

/// Rows that share a dequantised page: one while rows are few, so that work is spread; else as many
/// as keep scores and sums of a work item within the second-level cache.
int64_t sharingRows(int64_t rows, int64_t heads) {
  return rows < 16 ? 1 : std::clamp<int64_t>(64 / heads, 1, 16);
}

/// Products of queries and keys: `keys` × `heads` accumulators of one vector, plus the keys and a
/// query of the step, must fit the registers. One row takes codes straight from the page, as long
/// as its heads are done in one go; else a stage of 32 keys of 128 dims, half of a first-level
/// cache, is dequantised.
Schedule cacheProduct(int64_t rows, int64_t heads, const Chip &chip) {
  bool wide = chip.lanes == 16;
  int64_t shared = sharingRows(rows, heads);
  Schedule schedule = {{"rows", shared}, {"chunk", 32}, {"lanes", chip.lanes}};
  schedule["ring"] = shared > 1 || heads > 4;
  schedule["heads"] = schedule["ring"] ? 2 : heads;
  while (heads % schedule["heads"])
    schedule["heads"] /= 2;
  schedule["keys"] = int64_t(std::bit_floor(uint64_t((wide ? 16 : 8) / schedule["heads"])));
  return schedule;
}

Schedule indexScore(const Schedule &problem, const Chip &chip) {
  Schedule schedule = cacheProduct(problem.at("rows"), problem.at("heads"), chip);
  schedule["blocks_per_item"] = 4;
  return schedule;
}

/// Values: `value_heads` × `value_dims` accumulators. Codes from the page are dequantised once for
/// all heads; from a stage, few heads with longer runs of dims load less.
Schedule attention(const Schedule &problem, const Chip &chip) {
  int64_t group = problem.at("group");
  bool wide = chip.lanes == 16;
  Schedule schedule = cacheProduct(problem.at("rows"), group, chip);
  int64_t valueHeads = wide || !schedule["ring"] ? 4 : 2;
  while (group % valueHeads)
    valueHeads /= 2;
  schedule["value_heads"] = valueHeads;
  schedule["value_dims"] = (wide ? 256 : 64) / valueHeads;
  schedule["split"] = problem.at("rows") == 1; // else there are rows enough for all threads
  return schedule;
}

} // namespace

Schedule x86Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  if (family == "project")
    return project(problem, chip);
  if (family == "gate_up" || family == "qkv_insert")
    return lone(problem, chip);
  if (family == "experts_up" || family == "experts_down")
    return product(problem, chip);
  if (family == "index_score")
    return indexScore(problem, chip);
  if (family == "attention")
    return attention(problem, chip);
  return {};
}

} // namespace m3c
