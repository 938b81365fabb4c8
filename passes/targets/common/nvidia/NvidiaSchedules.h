// Schedules of kernels that multiply cached pages by mma.sync, by the size of the chip.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

/// What of a chip they depend on.
struct PageChip {
  int64_t units;         ///< multiprocessors
  int64_t ringBytes;     ///< that the rings of a multiprocessor's work items may take together
  int64_t residents = 2; ///< work items of a multiprocessor where there are many
  int64_t crowd = 2;     ///< the same of sparse attention with more rows than that
  /// Of flat parts (`flat`): what the ring of a work item and the sums of its warps may take
  /// together, how many of these multiply, and whether selections are shared out so as well.
  int64_t flatBytes = 216 * 1024;
  int64_t flatConsumers = 8;
  bool flatSelections = true;
  bool scoresOfAllRows = true; ///< block scores may be shared out over all rows (scoreParts)
};

/// Attention of single rows. With few rows the pages of one are shared by the work items that fill
/// the chip, with many several work items of a row each fill a multiprocessor. Several rows that
/// attend to all pages are shared out flat (flatPartsFor), so are selections where that is shorter.
Schedule matrixAttention(const Schedule &problem, const PageChip &chip);

/// Block scores. A tile has rows that fill eight columns; four tiles of one sequence go together.
/// Pages are shared out over the work items that fill the chip: those of all rows, or of each tile
/// over its own.
Schedule matrixScores(const Schedule &problem, const PageChip &chip);

} // namespace m3c
