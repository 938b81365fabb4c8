// The ring of attention whose rows' pages lie end to end
// (passes/kernel/families/attention/FlatRows.h).
#pragma once

#include "passes/targets/common/Target.h"
#include "passes/targets/common/WorkPlan.h"

namespace m3c {

/// Flat parts for these places, 0 for parts of rows: what the user asked for (the problem's
/// `flat`), else as the plan says; of selections only where the target wants them.
inline int64_t flatPartsFor(const Schedule &problem, const AttentionPlaces &places,
                            bool selections = true) {
  int64_t rows = problem.at("rows"), heads = problem.at("kv_heads");
  int64_t selected = problem.at("selected");
  if (auto asked = problem.find("flat"); asked != problem.end())
    return asked->second ? mostFlatParts(places.units * places.flat, rows, heads, selected) : 0;
  return selected && !selections ? 0 : flatPartsFor(places, rows, heads, selected);
}

/// Stages of one page each that fit `bytes` of shared memory. The sums of `consumers` warps lie
/// beside them, since the ring goes on over the ends of rows: those of sixteen heads, with two
/// numbers of each.
inline int64_t flatStages(const Schedule &problem, int64_t bytes, int64_t consumers) {
  int64_t sumBytes = consumers * 16 * (problem.at("dims") + 2) * 4;
  return (bytes - sumBytes) / problem.at("page_bytes");
}

} // namespace m3c
