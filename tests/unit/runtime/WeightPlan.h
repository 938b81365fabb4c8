// Toy plans with a weight buffer of a given recipe, and what a device makes of it.
#pragma once

#include "runtime/hal/Hal.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/weights/WeightBinder.h"
#include "tests/unit/runtime/ToyPlan.h"

namespace m3c::test {

struct Piece {
  std::string tensor, dtype;
  std::vector<int64_t> shape;
  uint32_t firstPanel = 0, panelStep = 1;
  uint64_t destOffset = 0;
};

/// A toy plan with one more weight buffer, number 1.
plan::PlanFile planWith(plan::Recipe recipe, uint32_t bits, uint64_t rowLength, uint32_t panels,
                        uint64_t bytes, const std::vector<Piece> &pieces, uint32_t abreast = 1);

/// Buffer 1 of such a plan, as a device has it after its weights were bound.
std::vector<std::byte> boundBytes(const plan::PlanFile &plan, const WeightSource &source,
                                  hal::Device &device);

/// Every recipe and type of element, odd sizes among them: padded rows, several pieces, panels that
/// alternate and lie abreast, more items than a block has.
struct MadeUpCase {
  std::string name;
  plan::PlanFile plan;
};
std::vector<MadeUpCase> madeUpCases();

} // namespace m3c::test
