// Tuned schedules of the kernel families for the chips of this target.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

Schedule x86Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip);

} // namespace m3c
