// Schedules of `sm100`.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

/// As Target::schedule, for what the target emits.
Schedule sm100Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip);

/// Whether the chip's compiler knows the product of E2M1 codes and E4M3 scales; without it a table
/// of products takes its place.
bool sm100Multiplies(const Chip &chip);

} // namespace m3c
