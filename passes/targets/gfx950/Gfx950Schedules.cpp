#include "passes/targets/gfx950/Gfx950Schedules.h"

#include "passes/targets/common/WorkPlan.h"
#include "passes/targets/common/gpu/FlatRing.h"
#include "passes/targets/common/gpu/PlainSchedules.h"
#include "passes/targets/common/gpu/ScoreParts.h"

#include <algorithm>
#include <bit>

namespace m3c {
namespace {

// Nothing here was measured. A compute unit has room for one work item of sixteen waves with 128
// registers each, or of twelve with 168. A wave that brings pages waits for each of them, so there
// are several: four pages on their way in each of 256 units are 9 to 18 MB, what a memory of 8 TB/s
// delivers in one to two microseconds.

/// Shared memory beside the ring: the table of codes, queries, lists of pages, sums of rows.
constexpr int64_t besideRing = 10 * 1024;

/// Few rows (Target::emits): the pages of one are shared by the work items that fill the chip.
Schedule matrixAttention(const Schedule &problem, const Chip &chip) {
  int64_t rows = problem.at("rows"), heads = problem.at("kv_heads");
  int64_t page = problem.at("page_bytes"), units = chip.facts.units;
  int64_t selected = problem.at("selected"), flat = flatPartsFor(problem, {units});
  int64_t ringBytes = chip.sharedBytes - besideRing;
  if (flat) {
    constexpr int64_t consumers = 4; // twelve would have too few registers
    return {{"consumers", consumers},
            {"loaders", 4},
            {"stages", flatStages(problem, ringBytes, consumers)},
            {"parts", flat},
            {"merge", 12},
            {"flat", 1}};
  }
  return {
      {"consumers", 8},
      {"loaders", 4},
      {"stages", ringBytes / page},
      {"parts", selected ? partsOfSelection(units, rows * heads) : partsFor(units, rows * heads)},
      {"meet", 0},
      {"flat", 0}};
}

/// Rows of a step often choose the same pages: up to eight of them dequantise each once. Their sums
/// take 37 registers of a lane each: four waves have all registers of a compute unit, for eight
/// rows (with eight waves four rows would not fit half of them). Lists of pages and queries lie
/// beside the ring; FP32 queries of FP8 pages are two operands, and eight rows of them would leave
/// room for two pages.
Schedule sharedAttention(const Schedule &problem, const Chip &chip) {
  bool codes = problem.at("cache_bits") == 4, twice = !codes && problem.at("activation_bits") == 32;
  int64_t rows = problem.at("rows"), tileRows = std::min<int64_t>(rows, twice ? 4 : 8);
  int64_t items = (rows + tileRows - 1) / tileRows * problem.at("kv_heads");
  int64_t queryBytes = codes ? 2048 : twice ? 8192 : 4096; // E4M3, FP16
  int64_t besideRows = tileRows * (queryBytes + 4 * 128 + 4 * problem.at("selected") * tileRows);
  int64_t parts = std::min<int64_t>(partsFor(chip.facts.units, items), 8);
  return {{"shared_rows", tileRows},
          {"consumers", 4},
          {"stages", (chip.sharedBytes - besideRing - besideRows) / problem.at("page_bytes")},
          {"parts", int64_t(std::bit_floor(uint64_t(parts)))}};
}

/// A tile has rows that fill sixteen columns; two tiles of one sequence go together.
Schedule matrixScores(const Schedule &problem, const Chip &chip) {
  int64_t columns = chip.matrix.columns, tileRows = columns / problem.at("heads");
  int64_t rows = problem.at("rows"), tiles = (rows + tileRows - 1) / tileRows;
  Schedule schedule = scoreParts(problem, chip.facts.units, tiles);
  schedule.insert({{"columns", rows >= 2 * tileRows ? 2 * columns : columns},
                   {"consumers", 12},
                   {"loaders", 4},
                   {"stages", (chip.sharedBytes - besideRing) / problem.at("page_bytes")}});
  return schedule;
}

} // namespace

Schedule gfx950Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  if (family == "block_topk")
    return {{"warps", 8}};
  if (isOn(problem, "plain"))
    return family == "index_score" ? plainScores(problem) : plainAttention(problem);
  if (family == "index_score")
    return matrixScores(problem, chip);
  if (isOn(problem, "shared") && problem.at("rows") > 1)
    return sharedAttention(problem, chip);
  return matrixAttention(problem, chip);
}

} // namespace m3c
