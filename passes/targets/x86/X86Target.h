// x86-64 with AVX2 or AVX-512.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

std::unique_ptr<Target> makeX86Target();

} // namespace m3c
