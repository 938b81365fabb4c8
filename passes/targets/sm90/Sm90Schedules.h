// Schedules of kernel families for H100 and H200.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

Schedule sm90Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip);

} // namespace m3c
