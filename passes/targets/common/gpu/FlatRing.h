// The ring of attention whose rows' pages lie end to end (passes/kernel/families/FlatRows.h).
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

/// Stages of one page each that fit `bytes` of shared memory. The sums of `consumers` warps lie
/// beside them, since the ring goes on over the ends of rows: those of sixteen heads, with two
/// numbers of each.
inline int64_t flatStages(const Schedule &problem, int64_t bytes, int64_t consumers) {
  int64_t sumBytes = consumers * 16 * (problem.at("dims") + 2) * 4;
  return (bytes - sumBytes) / problem.at("page_bytes");
}

} // namespace m3c
