// Schedules of `sm100`.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

/// As Target::schedule, for what the target emits.
Schedule sm100Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip);

} // namespace m3c
