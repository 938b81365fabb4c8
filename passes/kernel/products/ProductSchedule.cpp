#include "passes/kernel/products/SharedProduct.h"

using namespace mlir;

namespace m3c::kernel {

bool usesFragments(const Schedule &schedule) {
  return schedule.count("k_split") || sharesRows(schedule);
}

Schedule productProblem(ArrayRef<m3::WeightOp> sources, Type activations, int64_t handedBits) {
  m3::WeightOp first = sources.front();
  PackedWeight shape;
  shape.encoding = first.weightType().getEncoding();
  int64_t n = 0;
  for (m3::WeightOp source : sources)
    n += source.weightType().rows();
  Schedule problem = {{"n", n},
                      {"k", first.weightType().cols()},
                      {"weight_bits", 32 / shape.perWord()},
                      {"activation_bits", activations.getIntOrFloatBitWidth()}};
  if (handedBits) {
    problem["handed_bits"] = handedBits;
    problem[splitRowsForm] = activations.isF32();
  }
  return problem;
}

void noteOneTile(Schedule &schedule, int64_t rows) {
  if (!usesFragments(schedule) || sharesRows(schedule) || schedule.at("rows") < rows)
    return;
  schedule.erase("row_block");
  schedule["one_tile"] = 1;
}

/// Warps along K where the work item has `panels`: fewer panels leave more warps to K.
static int64_t splitOf(const Schedule &schedule, int64_t panels) {
  int64_t split = schedule.at("k_split");
  while (panels % (schedule.at("warps") / split))
    split *= 2;
  return split;
}

void setPanels(Schedule &schedule, int64_t panels) {
  schedule.at("panels") = panels;
  if (usesFragments(schedule))
    schedule.at("k_split") = splitOf(schedule, panels);
}

/// As many panels as the table says, or the next smaller number that divides the weight's, and with
/// which the accumulators of a warp and the sums of all warps have room, as those of the table do.
static Schedule fitFragments(Schedule schedule, const PackedWeight &weight, int64_t panelUnit) {
  constexpr int64_t registers = 128; // of a thread, for accumulators
  // Of a work item, for FP32 sums: two products of a launch may have theirs at once.
  constexpr int64_t sharedBytes = 112 * 1024;
  const int64_t rows = schedule.at("rows"), columns = rows * rowParts(schedule);
  int64_t &split = schedule.at("k_split");
  split = std::min(split, schedule.at("warps")); // a choice given by hand may be larger
  auto accumulators = [&](int64_t panels) {
    return panels * splitOf(schedule, panels) / schedule.at("warps") * columns / 2;
  };
  auto sums = [&](int64_t panels) {
    return panels * splitOf(schedule, panels) * rows * panelOutputs * 4;
  };
  const int64_t most = std::max(schedule.at("panels"), panelUnit);
  auto fits = [&](int64_t panels) {
    return weight.panels % panels == 0 && panels % panelUnit == 0 &&
           accumulators(panels) <= std::max(registers, accumulators(most)) &&
           sums(panels) <= std::max(sharedBytes, sums(most));
  };
  int64_t panels = most;
  while (panels > panelUnit && !fits(panels))
    --panels;
  setPanels(schedule, panels);
  // Fewer work items stand on a multiprocessor where sums are larger than those of the table.
  if (auto residents = schedule.find("residents"); residents != schedule.end() && panels != most)
    residents->second =
        std::max<int64_t>(1, std::min(residents->second, sharedBytes / sums(panels)));
  return schedule;
}

Schedule fitSchedule(Schedule schedule, const PackedWeight &weight, int64_t panelUnit,
                     int64_t rows) {
  if (sharesRows(schedule))
    return fitSharedRows(schedule, weight);
  if (usesFragments(schedule))
    return fitFragments(schedule, weight, panelUnit);
  int64_t &panels = schedule.at("panels"), &tileRows = schedule.at("rows");
  int64_t accumulators = tileRows * panels, tilePanels = panels;
  panels = std::max(panels, panelUnit);
  auto fits = [&](int64_t count) {
    bool whole = count % weight.abreast == 0 || weight.abreast % count == 0; // blocks, or in one
    return weight.panels % count == 0 && count % panelUnit == 0 && whole;
  };
  while (panels > panelUnit && !fits(panels))
    --panels;
  if (schedule.at("ring") && panels > tilePanels && panels % tilePanels == 0)
    schedule["tile_panels"] = tilePanels; // the stage holds a pair, a register tile part of it
  else
    tilePanels = panels;
  // A wider tile has fewer rows, so that the accumulators still fit the registers.
  tileRows =
      std::max<int64_t>(1, std::min({tileRows, accumulators / tilePanels, rows, paddingRows}));
  if (schedule.at("ring")) {
    int64_t unit = std::max(weight.group(), weight.perWord());
    int64_t &chunk = schedule.at("k_chunk");
    chunk = std::min(chunk, weight.k);
    while (weight.k % chunk || chunk % unit)
      --chunk;
  }
  return schedule;
}

SmallVector<planir::GridDim> productGrid(const Schedule &schedule, int64_t panels, int64_t rows) {
  auto block = schedule.find("row_block");
  int64_t rowBlock = block == schedule.end() ? rows : block->second;
  return {{int64_t(llvm::divideCeil(panels, schedule.at("panels"))), 0},
          {int64_t(llvm::divideCeil(rows, rowBlock)), 0}};
}

} // namespace m3c::kernel
