// Targets of a plan by name, which code of a kernel each runs, and over how many work items.
#pragma once

#include "runtime/plan/List.h"
#include "runtime/plan/PlanFile.h"

#include <string>
#include <string_view>
#include <vector>

namespace m3c::plan {

/// True where kernels of another chip stand in for some of the target's.
inline bool isIncomplete(const Target &target) {
  return target.fallback_chip() && target.fallback_chip()->size() > 0;
}

/// The object of a kernel for a chip; null where it has none.
inline const CodeObject *objectFor(const Kernel &kernel, std::string_view chip) {
  for (const CodeObject *object : list(kernel.objects()))
    if (object->chip()->string_view() == chip)
      return object;
  return nullptr;
}

/// The object of a kernel for a target's own chip, else for the chip that stands in; null where it
/// has neither.
inline const CodeObject *objectFor(const Kernel &kernel, const Target &target) {
  const CodeObject *own = objectFor(kernel, target.chip()->string_view());
  return own || !isIncomplete(target) ? own
                                      : objectFor(kernel, target.fallback_chip()->string_view());
}

/// The same; throws Error where the plan has neither.
const CodeObject &requireObject(const PlanFile &file, const Kernel &kernel, const Target &target);

/// Names of a plan's targets; one with several chips once.
std::vector<std::string> targetNames(const Tables &tables);

/// The first target of that name, or for a chip of that name; null where there is none.
const Target *findTarget(const Tables &tables, std::string_view nameOrChip);

/// Throws Error (wrong usage): the plan has no target of the name that `option` was given.
[[noreturn]] void refuseTarget(const Tables &tables, const std::string &planName,
                               const std::string &name, const char *option);

/// Work items along a dimension of a grid, in a step whose page table has `blocks` blocks a row.
inline uint64_t itemsAlong(const GridDim &dim, uint64_t blocks) {
  return dim.blocks_per_item() ? (blocks + dim.blocks_per_item() - 1) / dim.blocks_per_item()
                               : dim.count();
}

} // namespace m3c::plan
