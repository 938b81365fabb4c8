// Passes on the `plan` dialect (see Passes.td).
#pragma once

#include "dialects/plan/Plan.h"
#include "passes/statistics/Statistics.h"

namespace m3c {

#define GEN_PASS_DECL
#include "passes/plan/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"

} // namespace m3c
