#include "passes/kernel/Passes.h"
#include "passes/targets/common/Target.h"

using namespace mlir;

namespace m3c::kernel {
#define GEN_PASS_DEF_OVERLAPLAUNCHES
#include "passes/kernel/Passes.h.inc"

namespace {

struct OverlapLaunchesPass : impl::OverlapLaunchesBase<OverlapLaunchesPass> {
  using OverlapLaunchesBase::OverlapLaunchesBase;

  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    const Chip *row = chipOf(kernel, chip).second;
    if (!row)
      return signalPassFailure();
    Block &entry = kernel.getBody().front();
    if (!row->overlaps || !entry.getOps<tile::AwaitLaunchOp>().empty())
      return;
    Operation *first = &*llvm::find_if(entry, [](Operation &op) {
      bool harmless = isPure(&op) || isa<tile::AllocOp>(op); // a place on the chip, no more
      return !harmless || op.hasTrait<OpTrait::IsTerminator>();
    });
    OpBuilder builder(first);
    tile::AwaitLaunchOp::create(builder, first->getLoc(), StringAttr());
    tile::AllowLaunchOp::create(builder, first->getLoc(), StringAttr());
    ++overlapped;
  }
};

} // namespace
} // namespace m3c::kernel
