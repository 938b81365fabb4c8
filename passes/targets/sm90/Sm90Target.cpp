#include "passes/targets/sm90/Sm90Target.h"

#include "passes/targets/common/nvidia/NvidiaTarget.h"
#include "passes/targets/sm90/DeviceHeaders.h"
#include "passes/targets/sm90/Sm90Schedules.h"

namespace m3c {
namespace {

// Shared memory of a block: CUDA C++ programming guide, table of compute capability 9.0 (227 KiB
// after the system's 1 KiB); of clusters the size that every such chip can place. A thread has 255
// registers; some are left for addresses. Figures: the vendor's data sheet of the H200 (SXM),
// dense.
const Chip chipRows[] = {{"sm_90a",
                          {"sm_90a"},
                          32,
                          192,
                          227 * 1024,
                          8,
                          true,
                          {},
                          {132, 228 * 1024, 0, 64 * 1024, 4.8e12, 989e12, 1979e12,
                           "data sheet of the H200", true, 67e12, 2048, 32, 1024},
                          4}};

constexpr const char *groupProduct = "HGMMA\\.64x[0-9]+x16\\.F32\\.BF16";

const Atom ownRows[] = {
    {"pack_rows", "tile.pack_rows", "", "", "packRows", ""},
    {"wgmma_bf16", "tile.mma_shared", "", "", "mmaShared", groupProduct},
    {"wgmma_f16", "tile.mma_shared", "f16", "", "mmaShared", "HGMMA\\.64x136x16\\.F32"},
    {"slot_e2m1", "tile.share_slot", "e2m1", "", "slot_e2m1", "F2FP\\.F16\\.E4M3\\.UNPACK_B"},
    {"slot_e4m3", "tile.share_slot", "e4m3", "", "slot_e4m3", "F2FP\\.F16\\.E4M3\\.UNPACK_B"},
    {"wgmma_wait", "tile.mma_wait", "", "", "awaitShared", "WARPGROUP\\.DEPBAR"},
};

class Sm90Target final : public NvidiaTarget {
public:
  Sm90Target() : NvidiaTarget(ownRows) {}
  llvm::StringRef name() const override { return "sm90"; }
  llvm::ArrayRef<Chip> chips() const override { return chipRows; }
  Schedule schedule(llvm::StringRef family, const Schedule &problem,
                    const Chip &chip) const override {
    return sm90Schedule(family, problem, chip);
  }
  const std::map<std::string, std::string> &deviceHeaders() const override {
    return sm90DeviceHeaders();
  }
  /// But for products of four warps the text has no instruction of this chip alone, so later ones
  /// can build it.
  SourceBuild sourceBuild() const override {
    return {{"sm_90", "sm_100", "sm_103", "sm_107"},
            toolchains::cudaSourceOptions(options(chipRows[0])),
            {groupProduct}};
  }
  std::vector<std::string> activations() const override { return {"bf16", "f32"}; }
  llvm::StringRef proof() const override { return "executed"; }
};

} // namespace

std::unique_ptr<Target> makeSm90Target() { return std::make_unique<Sm90Target>(); }

} // namespace m3c
