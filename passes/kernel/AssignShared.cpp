#include "passes/kernel/Passes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace m3c::kernel {
#define GEN_PASS_DEF_ASSIGNSHARED
#include "passes/kernel/Passes.h.inc"

namespace {

struct AssignSharedPass : impl::AssignSharedBase<AssignSharedPass> {
  using AssignSharedBase::AssignSharedBase;

  void runOnOperation() override {
    Builder builder(&getContext());
    int64_t end = 0;
    auto place = [&](Operation *op, int64_t size) {
      op->setAttr("offset", builder.getI64IntegerAttr(end));
      end = llvm::alignTo(end + size, 64);
    };
    getOperation().walk([&](Operation *op) {
      if (auto alloc = dyn_cast<tile::AllocOp>(op))
        place(op, alloc.getView().getType().getByteSize());
      else if (auto ring = dyn_cast<tile::RingOp>(op))
        // Two barriers of eight bytes follow each stage that a copy fills.
        place(op, ring.getRing().getType().getByteSize() +
                      (ring.getAsync() ? 16 * ring.getRing().getType().getStages() : 0));
    });
    getOperation().setSharedBytes(end);
    bytes += end;
  }
};

} // namespace
} // namespace m3c::kernel
