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

/// Registers of roles: the chip changes those of some warps together, and all of them come out of
/// what the work item begins with.
LogicalResult checkBudgets(tile::RolesOp roles, tile::KernelOp kernel, const Chip &chip) {
  if (!roles.hasBudgets())
    return success();
  if (!chip.registerWarps)
    return roles.emitError("gives roles registers of their own, which ")
           << chip.name << " cannot change; take them away";
  int64_t asked = 0, warps = 0;
  for (auto role : roles.getBody().getOps<tile::RoleOp>()) {
    int64_t own = int64_t(*role.getWarps()), over = own % chip.registerWarps;
    if (over)
      return role.emitError("has ")
             << own << (own == 1 ? " warp" : " warps") << " with " << *role.getRegisters()
             << " registers of their own, " << chip.name << " changes those of "
             << chip.registerWarps << " warps together: " << chip.registerWarps - over
             << " too few; give the role more warps, or no role registers";
    warps += own;
    asked += own * int64_t(*role.getRegisters());
  }
  int64_t begins = registersAtEntry(kernel, chip), has = begins * warps;
  if (asked <= has)
    return success();
  const int64_t lanes = chip.matrix.lanes;
  return roles.emitError("needs ")
         << asked * lanes << " registers for its roles, " << chip.name << " gives a work item of "
         << warps << " warps " << has * lanes << " (" << begins << " each thread, of "
         << *kernel.getResidents() << " on a multiprocessor): " << (asked - has) * lanes
         << " too many; give roles fewer";
}

/// Work items that stand on a multiprocessor at once share its places, threads and memory.
LogicalResult checkResidents(tile::KernelOp kernel, const Chip &chip) {
  const int64_t residents = int64_t(kernel.getResidents().value_or(1));
  const int64_t warps = int64_t(kernel.getWarps().value_or(1));
  const int64_t shared = int64_t(kernel.getSharedBytes().value_or(0));
  auto fit = [&](int64_t each, int64_t whole, const char *what) -> LogicalResult {
    if (!whole || residents * each <= whole)
      return success();
    return kernel.emitError("is to stand ")
           << residents << " times on a multiprocessor, which takes " << residents * each << " "
           << what << ", " << chip.name << " has " << whole << ": " << residents * each - whole
           << " too many; let fewer stand there (residents)";
  };
  const ChipFacts &facts = chip.facts;
  return success(succeeded(fit(1, facts.unitItems, "places")) &&
                 succeeded(fit(warps * chip.matrix.lanes, facts.unitThreads, "threads")) &&
                 succeeded(fit(shared ? shared + facts.reservedBytes : 0, facts.unitSharedBytes,
                               "bytes of shared memory")));
}

/// Registers of a thread that runs this loop.
int64_t registersAt(scf::ForOp loop, tile::KernelOp kernel, const Chip &chip) {
  if (auto role = loop->getParentOfType<tile::RoleOp>(); role && role.getRegisters())
    return int64_t(*role.getRegisters());
  int64_t threads = chip.matrix.lanes * int64_t(kernel.getWarps().value_or(1));
  return chip.facts.registers ? std::min(chip.vectorRegisters, chip.facts.registers / threads)
                              : chip.vectorRegisters;
}

constexpr int64_t mostThreads = 1024; // of a work item, on every chip that has warps

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
    int64_t mostWarps = mostThreads / row->matrix.lanes;
    if (int64_t warps = int64_t(kernel.getWarps().value_or(1)); warps > mostWarps) {
      kernel.emitError("has ") << warps << " warps, a work item of " << row->name << " has at most "
                               << mostWarps;
      return signalPassFailure();
    }
    int64_t cluster = kernel.getCluster().value_or(1);
    if (cluster > row->cluster) {
      kernel.emitError("runs ") << cluster << " work items as a cluster, " << row->name
                                << " at most " << row->cluster << "; make the cluster smaller";
      return signalPassFailure();
    }
    if (failed(checkResidents(kernel, *row)))
      return signalPassFailure();
    int64_t columns = 0;
    kernel.walk([&](tile::TensorMemoryOp memory) {
      columns += memory.getMemory().getType().getShape()[1];
    });
    if (columns > row->facts.tensorColumns) {
      kernel.emitError("needs ") << columns << " columns of tensor memory, " << row->name << " has "
                                 << row->facts.tensorColumns << "; make the ring shallower";
      return signalPassFailure();
    }
    WalkResult budgets = kernel.walk([&](tile::RolesOp roles) {
      return failed(checkBudgets(roles, kernel, *row)) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
    });
    if (budgets.wasInterrupted())
      return signalPassFailure();
    kernel.walk([&](scf::ForOp loop) {
      int64_t registers = 0;
      for (Value carried : loop.getRegionIterArgs())
        registers += registersOf(carried.getType(), *row);
      if (int64_t most = registersAt(loop, kernel, *row); registers > most) {
        loop.emitError("carries ")
            << registers << " vector registers through the loop, a thread of " << row->name
            << " has " << most << "; make the register tile smaller";
        signalPassFailure();
      }
    });
  }
};

} // namespace
} // namespace m3c::kernel
