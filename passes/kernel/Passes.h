// Passes on tile kernels, and the lowering of m3 to kernels and launches.
#pragma once

#include "dialects/plan/Plan.h"
#include "dialects/tile/Tile.h"

#include "passes/statistics/Statistics.h"

namespace m3c::kernel {

#define GEN_PASS_DECL
#include "passes/kernel/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/kernel/Passes.h.inc"

} // namespace m3c::kernel
