#include "passes/targets/common/nvidia/NvidiaSchedules.h"

#include "passes/targets/common/WorkPlan.h"
#include "passes/targets/common/gpu/FlatRing.h"
#include "passes/targets/common/gpu/ScoreParts.h"

#include <algorithm>

namespace m3c {

/// Flat parts; nothing where parts of rows are as good.
static Schedule flatAttention(const Schedule &problem, const PageChip &chip) {
  int64_t parts = flatPartsFor(problem, {chip.units}, chip.flatSelections);
  if (!parts)
    return {};
  return {{"consumers", chip.flatConsumers},
          {"loaders", 1},
          {"attend_registers", 0},
          {"load_registers", 0},
          {"stages", flatStages(problem, chip.flatBytes, chip.flatConsumers)},
          {"parts", parts},
          {"residents", 1},
          {"merge", 12},
          {"flat", 1}};
}

Schedule matrixAttention(const Schedule &problem, const PageChip &chip) {
  if (Schedule flat = flatAttention(problem, chip); !flat.empty())
    return flat;
  int64_t items = problem.at("rows") * problem.at("kv_heads"), page = problem.at("page_bytes");
  bool many = items > chip.units;
  int64_t residents = many ? chip.residents : 1;
  int64_t stages = chip.ringBytes / residents / page;
  // More, with a shorter ring each, hide the beginnings and ends of one another's rows.
  constexpr int64_t crowdStages = 2;
  if (problem.at("selected") && items > chip.units * chip.residents &&
      chip.crowd > chip.residents && chip.crowd * crowdStages * page <= chip.ringBytes) {
    residents = chip.crowd;
    stages = crowdStages;
  }
  constexpr int64_t teamWarps = 4; // quarters of a page
  const int64_t consumers = many ? 4 : 8, teams = consumers / teamWarps;
  stages -= stages % teams; // a stage is always one team's, which waits for its phases alone
  int64_t parts =
      problem.at("selected") ? partsOfSelection(chip.units, items) : partsFor(chip.units, items);
  return {{"consumers", consumers},
          {"loaders", 1},
          {"attend_registers", 0},
          {"load_registers", 0},
          {"stages", stages},
          {"parts", parts},
          {"residents", residents},
          {"merge", 12},
          {"meet", 0},
          {"flat", 0}};
}

Schedule matrixScores(const Schedule &problem, const PageChip &chip) {
  int64_t tileRows = 8 / problem.at("heads"), rows = problem.at("rows");
  int64_t tiles = (rows + tileRows - 1) / tileRows;
  bool wide = rows >= 4 * tileRows;
  const int64_t stages = chip.ringBytes / problem.at("page_bytes");
  const int64_t most = std::min<int64_t>(wide ? 11 : 15, stages); // a stage for each, or more
  Schedule schedule = {{"columns", wide ? 32 : 8}, {"consumers", most},   {"loaders", 1},
                       {"score_registers", 0},     {"load_registers", 0}, {"stages", stages}};
  if (chip.scoresOfAllRows)
    schedule.merge(scoreParts(problem, chip.units, tiles));
  else
    schedule["parts"] = partsFor(chip.units, tiles);
  return schedule;
}

} // namespace m3c
