// Schedules of kernels that are printed wholly from `tile`: the plain siblings of those on matrix
// instructions, with the order of additions of the CPU's kernels.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

/// Of the families index_score and attention, one work item for all pages of a tile of rows.
Schedule plainScores(const Schedule &problem);
Schedule plainAttention(const Schedule &problem);

} // namespace m3c
