// Schedules of kernel families for MI350X and MI355X.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

/// Of families that the target emits.
Schedule gfx950Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip);

} // namespace m3c
