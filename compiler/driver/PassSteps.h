// The passes of `m3c compile` in order, each run by itself so that it can be timed, dumped after
// and switched off.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>
#include <vector>

namespace m3c {

/// One pass of the pipeline.
struct PassStep {
  std::string name;    ///< "plan-assign-arena"
  std::string anchor;  ///< nesting below the module, "plan.program(plan.bucket": "" = the module
  std::string options; ///< "chip=… schedule=…" or empty
  bool required;       ///< what follows cannot do without it
};

/// Passes on the m3 function, the same for every chip. `buckets`: rows of the recorded graphs, or
/// what the pass decides.
std::vector<PassStep> graphSteps(const std::vector<int64_t> &buckets = {});
/// From the m3 function to kernels with assigned memory and a scheduled plan, for one chip.
/// `schedule` holds "family.choice=value".
std::vector<PassStep> chipSteps(const std::string &chip, const std::vector<std::string> &schedule);

/// Throws Error (wrong usage) for a name that is no pass of the pipeline or may not be disabled.
void checkDisabled(const std::vector<std::string> &disabled);
/// Throws Error (wrong usage) for a name that is no pass of the pipeline; "all" is allowed.
void checkDumped(const std::vector<std::string> &dumped);

struct PassRunOptions {
  std::vector<std::string> disabled;
  /// Called after each pass with its name, the module and the seconds it took.
  std::function<void(const PassStep &, mlir::ModuleOp, double)> after;
};

/// "file:line:column", or the weight, layer or kernel that an operation was made for; empty where
/// neither is known.
std::string placeOf(mlir::Location location);

/// Runs the steps in order. Throws Error with the first diagnostic when a pass fails.
void runSteps(mlir::ModuleOp module, const std::vector<PassStep> &steps,
              const PassRunOptions &options);

} // namespace m3c
