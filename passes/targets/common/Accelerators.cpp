#include "passes/targets/common/Accelerators.h"

#include <algorithm>

namespace m3c {

// Memory sizes: the vendors' data sheets, per GPU.
static constexpr Accelerator acceleratorTable[] = {
    {"h100", "sm90", 80'000'000'000},      {"h200", "sm90", 141'000'000'000},
    {"b200", "sm100", 180'000'000'000},    {"b300", "sm100", 288'000'000'000},
    {"gb300", "sm100", 288'000'000'000},   {"rubin", "sm107", 288'000'000'000},
    {"mi350x", "gfx950", 288'000'000'000}, {"mi355x", "gfx950", 288'000'000'000},
};

std::span<const Accelerator> accelerators() { return acceleratorTable; }

const Accelerator *findAccelerator(std::string_view name) {
  auto found = std::ranges::find(acceleratorTable, name, &Accelerator::name);
  return found == std::end(acceleratorTable) ? nullptr : found;
}

} // namespace m3c
