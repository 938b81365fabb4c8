// Schedules of `sm107`.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

/// As Target::schedule, for what the target emits.
Schedule sm107Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip);

} // namespace m3c
