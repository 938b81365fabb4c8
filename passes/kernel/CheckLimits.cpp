#include "passes/kernel/Passes.h"
#include "passes/targets/common/Target.h"

using namespace mlir;

namespace m3c::kernel {
#define GEN_PASS_DEF_CHECKLIMITS
#include "passes/kernel/Passes.h.inc"

namespace {

/// Vector registers that a tile takes; scalars that broadcast from memory take none.
int64_t registersOf(Type type, const Chip &chip) {
  auto tile = dyn_cast<tile::TileType>(type);
  if (!tile)
    return 0;
  int64_t elements = tile.getRows() * tile.getCols(), lanes = chip.matrix.lanes;
  switch (tile.getLayout()) { // of a thread that is one lane of a warp
  case tile::Layout::PerLane:
    return llvm::divideCeil(tile.getCols() * tile::elementBytes(tile.getElement()), 4);
  case tile::Layout::MmaA: // FP32 as three times 16 bits
  case tile::Layout::MmaB: {
    unsigned bits = tile.getElement().isF32() ? 48 : tile.getElement().getIntOrFloatBitWidth();
    return elements * bits / (32 * lanes);
  }
  case tile::Layout::MmaAcc:
    return elements / lanes;
  case tile::Layout::LaneRows:
    return tile.getCols();
  case tile::Layout::MmaRows: // four lanes share a row
    return 64 / lanes;
  case tile::Layout::MmaColumns:
    return tile.getCols() / 4;
  case tile::Layout::Lanes:
    break;
  }
  if (tile.getCols() == 1)
    return 0;
  int64_t along = chip.lanes * 4 / tile::elementBytes(tile.getElement());
  while (tile.getCols() % along)
    along /= 2;
  return tile.getRows() * (tile.getCols() / along);
}

struct CheckLimitsPass : impl::CheckLimitsBase<CheckLimitsPass> {
  using CheckLimitsBase::CheckLimitsBase;

  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    const Chip *row = chipOf(kernel, chip).second;
    if (!row)
      return signalPassFailure();
    int64_t shared = kernel.getSharedBytes().value_or(0);
    if (shared > row->sharedBytes) {
      kernel.emitError("needs ") << shared << " bytes of shared memory, " << row->name
                                 << " gives a work item " << row->sharedBytes << ": "
                                 << shared - row->sharedBytes
                                 << " too many; make the tile, the chunk or the ring smaller";
      return signalPassFailure();
    }
    int64_t cluster = kernel.getCluster().value_or(1);
    if (cluster > row->cluster) {
      kernel.emitError("runs ") << cluster << " work items as a cluster, " << row->name
                                << " at most " << row->cluster << "; make the cluster smaller";
      return signalPassFailure();
    }
    int64_t columns = 0;
    kernel.walk([&](tile::TensorMemoryOp memory) {
      columns += memory.getMemory().getType().getShape()[1];
    });
    if (columns > row->facts.tensorColumns) {
      kernel.emitError("needs ") << columns << " columns of tensor memory, " << row->name << " has "
                                 << row->facts.tensorColumns << "; make the ring shallower";
      return signalPassFailure();
    }
    kernel.walk([&](scf::ForOp loop) {
      int64_t registers = 0;
      for (Value carried : loop.getRegionIterArgs())
        registers += registersOf(carried.getType(), *row);
      if (registers > row->vectorRegisters) {
        loop.emitError("carries ")
            << registers << " vector registers through the loop, " << row->name << " has "
            << row->vectorRegisters << "; make the register tile smaller";
        signalPassFailure();
      }
    });
  }
};

} // namespace
} // namespace m3c::kernel
