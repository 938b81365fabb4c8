// Machine code for the kernels of a lowered module, from the cache or from the target's compiler.
#pragma once

#include "compiler/planfile/PlanBuilder.h"
#include "passes/targets/common/Target.h"
#include "runtime/base/ContentCache.h"

#include <functional>
#include <map>
#include <string>

namespace m3c {

/// The target that --target names. Throws Error (wrong usage) for one that this version does not
/// compile for, be it planned or unknown.
const Target &requireTarget(const std::string &name);

/// A kernel of one chip as text, ready to be built.
struct KernelText {
  const Target *target = nullptr; ///< that it was lowered for: the module's, or its fallback
  Chip chip;
  std::string name, family, schedule;
  uint32_t params = 0;
  std::vector<plan::Element> elements; ///< of each parameter
  KernelLaunchShape shape;
  std::string source; ///< what the target's compiler takes
  std::string tile;   ///< the tile.kernel as IR text
  /// What the machine code must show by the rows of the atoms that the kernel uses.
  std::vector<std::string> patterns;
  bool isTuned = false; ///< its schedule says that its values stay in registers
};

/// Prints every tile.kernel of the module, which was lowered for `chip`; kernels that name another
/// chip are that one's. Throws Error for one that has no printed form.
std::vector<KernelText> printKernels(mlir::ModuleOp module, const Chip &chip);

struct BuildResult {
  std::vector<std::byte> object;
  double seconds = 0; ///< 0 for one from the cache
  CodeFacts facts;
};

/// The key of a kernel's object: text, header digests, chip, toolchain, inspector, this
/// build of m3c.
CacheKey kernelKey(const KernelText &kernel);

/// Throws Error when a tuned kernel keeps values in memory for want of registers.
void checkSpills(const KernelText &kernel, const CodeFacts &facts);

/// Builds one kernel and inspects its machine code. Throws Error when the text does not compile,
/// when the code lacks an instruction that an atom promises, and as checkSpills does.
BuildResult buildKernel(const KernelText &kernel);

/// Builds all kernels with `threads` threads; results in the order of `kernels`. `progress` is
/// called under a lock with the count that is done and a kernel's name. Throws the first Error.
std::vector<BuildResult>
buildKernels(const std::vector<KernelText> &kernels, ContentCache &cache, unsigned threads,
             const std::function<void(size_t, const std::string &)> &progress);

} // namespace m3c
