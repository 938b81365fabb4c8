// Serialises a module of the plan dialect, with the machine code of its kernels, into a plan file.
#pragma once

#include "models/minimax_m3/ModelConfig.h"
#include "runtime/plan/PlanWriter.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace m3c {

/// How one kernel is launched on one chip, and what its code takes there; as in plan.fbs.
struct KernelLaunchShape {
  uint64_t sharedBytes = 0; ///< scratch memory of one work item
  uint32_t threads = 1;     ///< of one work item
  uint32_t cluster = 1;     ///< work items along x that run together
  bool overlaps = false;    ///< may begin before the launch before it ends
  uint32_t registers = 0;   ///< of one thread; 0 = not known
  uint32_t spillBytes = 0;  ///< of one thread
};

/// Machine code of one kernel for one chip.
struct KernelObject {
  std::string chip;
  std::vector<std::byte> bytes;
  KernelLaunchShape shape = {};
  std::string source = "";                  ///< text that it was built from; kept where not empty
  std::vector<plan::Element> elements = {}; ///< of each parameter
};

/// What became of one kernel symbol of the module.
struct KernelBuild {
  std::string family;
  std::string schedule; ///< as `m3c explain` prints it
  uint32_t params = 0;
  std::string source; ///< text that was compiled; kept where not empty
  std::vector<KernelObject> objects;
};

/// A chip that the plan has code for.
struct PlanTarget {
  std::string name, chip;
  std::vector<std::string> requiredFeatures;
  std::string proof;
  mlir::ModuleOp module; ///< its plan ops, arena assigned; exactly one program
  /// What goes with the sources of its objects, so that other chips can build them.
  std::map<std::string, std::string> headers = {};
  std::vector<std::string> buildOptions = {}, sourceFeatures = {};
  /// The chip that stands in for kernels that the target lacks, and what it requires; may be empty.
  std::string fallbackChip = "";
  std::vector<std::string> fallbackFeatures = {};
};

struct PlanContent {
  const ModelConfig &config;
  std::map<std::string, KernelBuild> kernels; ///< by symbol
  std::vector<PlanTarget> targets;            ///< at least one; all share one cache layout
  std::string manifest;                       ///< JSON
  std::map<std::string, std::string> extras;  ///< texts kept for people, by name
};

/// Equal content gives equal bytes. Code objects with equal bytes share a section. Throws Error for
/// a launch of a kernel that was not built and for a bucket without an arena.
plan::PlanWriter buildPlan(const PlanContent &content);

} // namespace m3c
