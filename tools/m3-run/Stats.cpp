// What a run has launched, and whether it shows what it is to show.
#include "runtime/base/Error.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"
#include "runtime/plan/Objects.h"
#include "tools/common/Tell.h"
#include "tools/m3-run/Options.h"

#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {

namespace {

/// Launches of each kernel, by its number in the plan; kernels that none of the steps launched are
/// there with 0.
std::map<uint32_t, uint64_t> launchesOf(const Engine &engine, const Session &session) {
  std::map<uint32_t, uint64_t> launches;
  for (uint32_t i = 0; i < session.stepsOfBuckets().size(); ++i)
    for (const plan::Launch *launch : plan::list(engine.bucket(i).launches()))
      launches[launch->kernel()] += session.stepsOfBuckets()[i];
  return launches;
}

void printLaunches(const Engine &engine, const std::map<uint32_t, uint64_t> &launches) {
  std::map<std::string, uint64_t> ofChips;
  for (const auto &[kernel, count] : launches) {
    if (count == 0)
      continue;
    std::string chip = engine.object(kernel).chip()->str();
    ofChips[chip] += count;
    tell("launched {:>8}  {:<11} {}\n", count, chip,
         engine.tables().kernels()->Get(kernel)->name()->str());
  }
  for (const auto &[chip, count] : ofChips)
    tell("launches {:>8}  {}\n", count, chip);
}

/// A family that the target has kernels of, and none of them ran, is a fault of the run.
void checkFamilies(const Engine &engine, const std::map<uint32_t, uint64_t> &launches) {
  const plan::Target &target = engine.target();
  std::map<std::string, uint64_t> families;
  for (const auto &[kernel, count] : launches)
    if (engine.isOwn(engine.object(kernel)))
      families[engine.tables().kernels()->Get(kernel)->family()->str()] += count;
  std::vector<std::string> idle;
  for (const auto &[family, count] : families)
    if (count == 0)
      idle.push_back(family);
  if (idle.empty())
    return;
  uint32_t most = 0;
  for (const plan::Bucket *bucket : plan::list(target.buckets()))
    for (const plan::Launch *launch : plan::list(bucket->launches()))
      if (engine.isOwn(engine.object(launch->kernel())))
        most = std::max(most, bucket->rows());
  throw Error(fmt::format("no kernel of {} ran of {}", target.name()->str(), fmt::join(idle, ", ")),
              "--emulate",
              fmt::format("{} has them for steps of up to {} rows, and kernels of {} for all else; "
                          "a run without them says nothing of {}",
                          target.name()->str(), most, target.fallback_chip()->str(),
                          target.name()->str()),
              fmt::format("give prompts in pieces, --chunk {}", std::min<uint32_t>(most, 8)));
}

} // namespace

void reportRun(const Engine &engine, const Session &session, bool stats) {
  std::map<uint32_t, uint64_t> launches = launchesOf(engine, session);
  if (stats)
    printLaunches(engine, launches);
  if (std::string line = hal::emulationSummary(engine.device()); !line.empty())
    tell("emulated {}\n", line);
  if (plan::isIncomplete(engine.target()))
    checkFamilies(engine, launches);
}

} // namespace m3c
