// What each kernel of a step costs at least, and what bounds it: `m3c explain --cost`.
#pragma once

#include "passes/targets/common/Target.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/StepWork.h"

#include <nlohmann/json.hpp>

namespace m3c {

/// Work items of a kernel that a unit of the chip holds at a time.
struct Occupancy {
  int64_t items = 0; ///< 0: not known
  std::string limit; ///< what allows no more: "threads", "registers", "shared memory", "items"
};
Occupancy occupancyOf(const ChipFacts &facts, const plan::CodeObject &object);

/// Instructions by pipe: those of the target's longest prefix that fits, others under "other".
std::map<std::string, unsigned> countPipes(llvm::ArrayRef<PipeRule> rules,
                                           const std::map<std::string, unsigned> &mnemonics);

/// The launches of the bucket that runs `step`, kind by kind (a label without its layer): bytes and
/// operations of one launch, what its code takes, and the bound. `target` is a target or chip of
/// the plan, empty: the first. Throws Error for one that the plan does not have, and where no
/// bucket runs the step.
nlohmann::ordered_json costJson(const plan::PlanFile &file, const std::string &target,
                                const StepShape &step);
std::string costText(const nlohmann::ordered_json &cost);

/// One row of each sequence of the plan's smallest bucket, after 8192 tokens.
StepShape defaultCostShape(const plan::PlanFile &file);

} // namespace m3c
