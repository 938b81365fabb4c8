#include "passes/kernel/Passes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace m3c::kernel {
#define GEN_PASS_DEF_ASSIGNSHARED
#include "passes/kernel/Passes.h.inc"

namespace {

/// Operands of products in shared memory begin where their swizzle does; the stages of a ring of
/// them are multiples of that.
bool isOperand(Value buffer) {
  return llvm::any_of(buffer.getUsers(), [&](Operation *user) {
    if (auto view = dyn_cast<tile::ReinterpretOp>(user))
      return isOperand(view.getView());
    if (auto wait = dyn_cast<tile::WaitOp>(user))
      return isOperand(wait.getStage());
    return isa<tile::TensorMmaOp, tile::MmaSharedOp>(user);
  });
}
constexpr int64_t swizzleBytes = 1024;

struct AssignSharedPass : impl::AssignSharedBase<AssignSharedPass> {
  using AssignSharedBase::AssignSharedBase;

  void runOnOperation() override {
    Builder builder(&getContext());
    int64_t end = 0;
    auto place = [&](Operation *op, int64_t size, int64_t alignment = 64) {
      end = llvm::alignTo(end, alignment);
      op->setAttr("offset", builder.getI64IntegerAttr(end));
      end = llvm::alignTo(end + size, 64);
    };
    getOperation().walk([&](Operation *op) {
      if (auto alloc = dyn_cast<tile::AllocOp>(op))
        place(op, alloc.getView().getType().getByteSize(),
              isOperand(alloc.getView()) ? swizzleBytes : 64);
      else if (auto gates = dyn_cast<tile::GatesOp>(op))
        place(op, 16 * gates.getGates().getType().getStages());
      else if (isa<tile::TensorMemoryOp>(op))
        place(op, 4);
      else if (auto ring = dyn_cast<tile::RingOp>(op))
        // Two barriers of eight bytes follow each stage that a copy fills.
        place(op,
              ring.getRing().getType().getByteSize() +
                  (ring.getAsync() ? 16 * ring.getRing().getType().getStages() : 0),
              isOperand(ring.getRing()) ? swizzleBytes : 64);
    });
    getOperation().setSharedBytes(end);
    bytes += end;
  }
};

} // namespace
} // namespace m3c::kernel
