#include "passes/targets/sm107/Sm107Target.h"

#include "passes/targets/common/nvidia/Incomplete.h"
#include "passes/targets/sm107/DeviceHeaders.h"
#include "passes/targets/sm107/Sm107Schedules.h"

namespace m3c {
namespace {

// What the vendor's blog says of the chip: 212 multiprocessors that kernels use, 328 KiB of shared
// memory, 576 columns of tensor memory, dense FP8 products at twice the rate of the chip before.
// Not known yet and taken from that chip: what a block may have of the shared memory, registers,
// clusters.
const Chip chipRows[] = {
    {.name = "sm_107a",
     .features = {"sm_107a"},
     .lanes = 32,
     .vectorRegisters = 192,
     .sharedBytes = 227 * 1024,
     .cluster = 8,
     .overlaps = true,
     .facts = {.units = 212,
               .unitSharedBytes = 328 * 1024,
               .tensorColumns = 576,
               .registers = 64 * 1024,
               .fp8 = 9e15,
               .source =
                   "the vendor's blog; registers, threads and work items of a unit as on sm_100",
               .unitThreads = 2048,
               .unitItems = 32,
               .reservedBytes = 1024},
     .registerWarps = 4},
};

const Atom atomRows[] = {
    {"cached_exact", "tile.load_cached", "e2m1.exact", "", "cachedExact",
     "F2FP\\.F16\\.E2M1\\.UNPACK_B"},
    {"cached_detour", "tile.load_cached", "e2m1.detour", "", "cachedByDetour",
     "F2FP\\.F16\\.E2M1\\.UNPACK_B"},
    {"mma_groups", "tile.mma_groups", "", "", "mmaGroups", "FHFMA2\\.F32x2\\.F16x2"},
};

class Sm107Target final : public DecodeTarget {
public:
  Sm107Target() : DecodeTarget(atomRows) {}
  llvm::StringRef name() const override { return "sm107"; }
  llvm::ArrayRef<Chip> chips() const override { return chipRows; }
  Schedule schedule(llvm::StringRef family, const Schedule &problem,
                    const Chip &chip) const override {
    return sm107Schedule(family, problem, chip);
  }
  const std::map<std::string, std::string> &deviceHeaders() const override {
    return sm107DeviceHeaders();
  }
  std::vector<Remark> remarks(const Chip &chip) const override {
    return {{"block scores of " + chip.name, "of NVFP4 keys that are not rounded to E4M3",
             "FP16 holds code times scale exactly; attention reads keys on the cache's grid"}};
  }
  SourceBuild sourceBuild() const override {
    return {{"sm_107a"}, toolchains::cudaSourceOptions(options(chipRows[0]))};
  }
};

} // namespace

std::unique_ptr<Target> makeSm107Target() { return std::make_unique<Sm107Target>(); }

} // namespace m3c
