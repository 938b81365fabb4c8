#include "runtime/plan/Objects.h"

#include "runtime/base/Error.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c::plan {

const CodeObject &requireObject(const PlanFile &file, const Kernel &kernel, const Target &target) {
  if (const CodeObject *object = objectFor(kernel, target))
    return *object;
  throw Error(
      fmt::format("kernel {} has no code for {}", kernel.name()->str(), target.chip()->str()),
      file.name(), "every kernel that a target launches needs a code object for it",
      "make the plan again with `m3c compile`");
}

std::vector<std::string> targetNames(const Tables &tables) {
  std::vector<std::string> names;
  for (const Target *target : list(tables.targets()))
    if (std::ranges::find(names, target->name()->str()) == names.end())
      names.push_back(target->name()->str());
  return names;
}

const Target *findTarget(const Tables &tables, std::string_view nameOrChip) {
  for (const Target *target : list(tables.targets()))
    if (target->name()->string_view() == nameOrChip || target->chip()->string_view() == nameOrChip)
      return target;
  return nullptr;
}

void refuseTarget(const Tables &tables, const std::string &planName, const std::string &name,
                  const char *option) {
  throw Error(fmt::format("{} has no code for {}", planName, name), option,
              fmt::format("it has code for {}", fmt::join(targetNames(tables), ", ")),
              "compile the plan for that target", ExitCode::Usage);
}

} // namespace m3c::plan
