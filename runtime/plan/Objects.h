// Which code of a kernel a target runs.
#pragma once

#include "runtime/plan/List.h"

#include <string_view>

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

} // namespace m3c::plan
