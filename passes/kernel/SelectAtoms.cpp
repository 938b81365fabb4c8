#include "passes/kernel/Passes.h"
#include "passes/targets/common/Target.h"

using namespace mlir;

namespace m3c::kernel {
#define GEN_PASS_DEF_SELECTATOMS
#include "passes/kernel/Passes.h.inc"

namespace {

const Atom *findAtom(const Target &target, const Chip &chip, Operation *op) {
  for (const Atom &atom : target.atoms())
    if (op->getName().getStringRef() == atom.op && atomFormat(op) == atom.format &&
        (atom.chip.empty() || atom.chip == chip.name))
      return &atom;
  return nullptr;
}

struct SelectAtomsPass : impl::SelectAtomsBase<SelectAtomsPass> {
  using SelectAtomsBase::SelectAtomsBase;

  void runOnOperation() override {
    auto [target, row] = chipOf(getOperation(), chip);
    if (!target)
      return signalPassFailure();
    WalkResult walk = getOperation().walk([&, target = target, row = row](Operation *op) {
      if (!isa<tile::MmaOp, tile::FmaOp, tile::DequantWordsOp, tile::DequantFragmentOp,
               tile::DequantGroupOp, tile::QuantGroupOp, tile::QuantGroupsOp, tile::LoadCachedOp,
               tile::MmaGroupsOp, tile::FillStageOp, tile::AwaitLaunchOp, tile::AllowLaunchOp,
               tile::TensorKeysOp, tile::OperandValuesOp, tile::TensorMmaOp, tile::TensorLoadOp,
               tile::TensorStoreOp>(op))
        return WalkResult::advance();
      // The plain spelling serves products with the lanes on the other side.
      if (auto mma = dyn_cast<tile::MmaOp>(op); mma && mma.getSide() == tile::Side::A)
        return WalkResult::advance();
      const Atom *atom = findAtom(*target, *row, op);
      if (!atom) {
        op->emitError("no atom of ")
            << row->name << " does this" << (atomFormat(op).empty() ? "" : " in format ")
            << atomFormat(op);
        return WalkResult::interrupt();
      }
      op->setAttr("atom", StringAttr::get(op->getContext(), atom->function));
      ++selected;
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace m3c::kernel
