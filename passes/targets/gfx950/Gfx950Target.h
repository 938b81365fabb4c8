// Target "gfx950": MI350X and MI355X (CDNA4), HIP C++ text compiled by clang and lld in process.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

std::unique_ptr<Target> makeGfx950Target();

} // namespace m3c
