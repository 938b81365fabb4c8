// The target `sm100`: B200, B300 and GB300.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

std::unique_ptr<Target> makeSm100Target();

} // namespace m3c
