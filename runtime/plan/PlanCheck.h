// Checks that the tables of a plan hold together, so that nothing later indexes out of bounds.
#pragma once

#include "runtime/plan/PlanFormat.h"
#include "runtime/plan/plan_generated.h"

#include <optional>
#include <span>
#include <string>

namespace m3c::plan {

/// Throws Error naming `file`, the table entry and the broken rule.
void checkTables(const Tables &tables, std::span<const SectionEntry> sections,
                 const std::string &file);

/// Bytes that a finished weight buffer must have by its recipe, row length, panels and pieces;
/// nothing when a product overflows or a field is impossible.
std::optional<uint64_t> weightBufferBytes(const WeightBuffer &buffer);

} // namespace m3c::plan
