// How block scores by matrix instructions are shared out (passes/kernel/families/selection).
#pragma once

#include "passes/targets/common/Target.h"
#include "passes/targets/common/WorkPlan.h"

namespace m3c {

/// Choices `all_rows` and `parts` of a problem whose rows are so many tiles. Where these are
/// several, the blocks of all sequences are shared out over all work items (planWork), for what the
/// user says (the problem's `all_rows`) or up to 32 rows, which a warp numbers; else those of a
/// tile over its own.
inline Schedule scoreParts(const Schedule &problem, int64_t units, int64_t tiles) {
  constexpr int64_t mostRows = 32;
  auto asked = problem.find("all_rows");
  bool all = asked != problem.end() ? asked->second : tiles > 1 && problem.at("rows") <= mostRows;
  return {{"all_rows", all}, {"parts", partsFor(units, all ? 1 : tiles)}};
}

} // namespace m3c
