#include "passes/targets/sm100/Sm100Target.h"

#include "passes/targets/common/nvidia/Incomplete.h"
#include "passes/targets/sm100/DeviceHeaders.h"
#include "passes/targets/sm100/Sm100Schedules.h"

namespace m3c {
namespace {

// Shared memory (227 KiB of a block, 228 of a multiprocessor), registers and clusters: CUDA C++
// programming guide, table of compute capability 10.x. Tensor memory: PTX ISA, 128 lanes of 512
// columns.
Chip chipRow(const char *arch) {
  return {.name = arch,
          .features = {arch},
          .lanes = 32,
          .vectorRegisters = 192,
          .sharedBytes = 227 * 1024,
          .cluster = 8,
          .overlaps = true,
          .facts = {.units = 148,
                    .unitSharedBytes = 228 * 1024,
                    .tensorColumns = 512,
                    .registers = 64 * 1024,
                    .bytesPerSecond = 8e12,
                    .fp16 = 2.25e15,
                    .fp8 = 4.5e15,
                    .source = "published figures of the vendor, not looked up again",
                    .unitThreads = 2048,
                    .unitItems = 32,
                    .reservedBytes = 1024},
          .registerWarps = 4};
}
const Chip chipRows[] = {chipRow("sm_100a"), chipRow("sm_103a")};

const Atom ownRows[] = {
    {"cached_multiply", "tile.load_cached", "e2m1.multiply", "", "cachedMultiplied",
     "QMUL4\\.E4M3x4\\.E2M1x4\\.E4M3x4\\.SATFINITE"},
    {"cached_detour", "tile.load_cached", "e2m1.detour", "", "cachedByDetour",
     "F2FP\\.F16\\.E2M1\\.UNPACK_B"},
    {"tensor_keys", "tile.tensor_keys", "multiply", "", "tensorKeys",
     "QMUL4\\.E4M3x4\\.E2M1x4\\.E4M3x4"},
    {"tensor_keys_detour", "tile.tensor_keys", "detour", "", "tensorKeysByDetour",
     "F2FP\\.F16\\.E2M1\\.UNPACK_B"},
    {"operand_values", "tile.operand_values", "multiply", "", "operandValues",
     "QMUL4\\.E4M3x4\\.E2M1x4\\.E4M3x4"},
    {"operand_values_detour", "tile.operand_values", "detour", "", "operandValuesByDetour",
     "F2FP\\.F16\\.E2M1\\.UNPACK_B"},
    {"tensor_mma_e4m3", "tile.tensor_mma", "e4m3", "", "tensorProductE4m3", "UTCQMMA"},
    {"pair_mma_e4m3", "tile.tensor_mma", "e4m3.pair", "", "pairProductE4m3", "UTCQMMA\\.2CTA"},
    {"tensor_mma_f16", "tile.tensor_mma", "f16", "", "tensorProductF16", "UTCHMMA"},
    {"tensor_load", "tile.tensor_load", "", "", "loadTensor", "LDTM"},
    {"tensor_store", "tile.tensor_store", "", "", "storeTensor", "STTM"},
};

class Sm100Target final : public DecodeTarget {
public:
  Sm100Target() : DecodeTarget(ownRows) {}
  llvm::StringRef name() const override { return "sm100"; }
  llvm::ArrayRef<Chip> chips() const override { return chipRows; }
  Schedule schedule(llvm::StringRef family, const Schedule &problem,
                    const Chip &chip) const override {
    return sm100Schedule(family, problem, chip);
  }
  const std::map<std::string, std::string> &deviceHeaders() const override {
    return sm100DeviceHeaders();
  }
  std::vector<Remark> remarks(const Chip &chip) const override {
    if (sm100Multiplies(chip))
      return {{"FP4 products of " + chip.name, "mul.e4m3x4.e2m1x4.e4m3x4, four at a time",
               "the compiler, " + toolchain(chip) + ", knows it"}};
    return {{"FP4 products of " + chip.name,
             "by way of FP16 in tensor memory, by a table in registers",
             "the compiler, " + toolchain(chip) +
                 ", does not know mul.e4m3x4.e2m1x4.e4m3x4; NVRTC 13.5 does"}};
  }
  SourceBuild sourceBuild() const override {
    return {{"sm_100a", "sm_103a"}, toolchains::cudaSourceOptions(options(chipRows[0]))};
  }
};

} // namespace

std::unique_ptr<Target> makeSm100Target() { return std::make_unique<Sm100Target>(); }

} // namespace m3c
