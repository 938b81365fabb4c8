// From the kernels of a module to text and machine code for one chip.
#pragma once

#include "passes/targets/common/Target.h"

#include "mlir/IR/BuiltinOps.h"

namespace m3c::codegen {

struct EmittedKernel {
  std::string name, family;
  std::string text;     ///< what the chip's compiler is given
  std::string ir;       ///< the tile kernel that the text was printed from
  std::string schedule; ///< "rows=6 panels=1 …"
  int64_t sharedBytes;
  unsigned parameters;
};

/// Runs the passes that a kernel needs before it is printed (atoms, shared memory, limits) and
/// prints every kernel of the module in order. The comments of the text refer to lines of `ir`.
/// Throws Error with the diagnostics of the pass or op that refused.
std::vector<EmittedKernel> emitKernels(mlir::ModuleOp module, const Target &target,
                                       const Chip &chip);

} // namespace m3c::codegen
