// The target `sm107`: Rubin.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

std::unique_ptr<Target> makeSm107Target();

} // namespace m3c
