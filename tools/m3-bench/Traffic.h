// The bytes that a launch must read and the operations that it must do, from the tables of a plan:
// what a measured time is compared with.
#pragma once

#include "runtime/hal/Hal.h"
#include "runtime/plan/plan_generated.h"
#include "runtime/schedule/StepPlanner.h"

namespace m3c::bench {

struct Traffic {
  double bytes = 0; ///< weights and cache; activations stay in the processor's caches
  double flops = 0; ///< FP32 multiply and add counted as two
};

/// Launch `launch` of a step with `step.rows` rows of one sequence that is then `context` tokens
/// long. Routing is taken as uniform: R rows read E·(1 − (1 − k/E)^R) experts.
Traffic trafficOf(const plan::Tables &tables, const plan::Launch &launch, const StepPlan &step,
                  uint64_t context);

/// Of a whole step.
Traffic trafficOfStep(const plan::Tables &tables, const StepPlan &step, uint64_t context);

/// Seconds that the limits allow at best.
double bestTime(const Traffic &traffic, const hal::DeviceLimits &limits,
                const plan::Target &target);

/// FP32 operations a second in the widest instructions that the target requires.
double arithmeticLimit(const hal::DeviceLimits &limits, const plan::Target &target);

} // namespace m3c::bench
