#include "passes/kernel/Passes.h"
#include "passes/targets/common/Target.h"

using namespace mlir;

namespace m3c::kernel {
#define GEN_PASS_DEF_SELECTATOMS
#include "passes/kernel/Passes.h.inc"

namespace {

/// The storage format that an op's atom depends on; empty where it depends on none.
StringRef formatOf(Operation *op) {
  if (auto attr = op->getAttrOfType<tile::FormatAttr>("format"))
    return tile::stringifyFormat(attr.getValue());
  return "";
}

const Atom *findAtom(const Target &target, const Chip &chip, Operation *op) {
  for (const Atom &atom : target.atoms())
    if (op->getName().getStringRef() == atom.op && formatOf(op) == atom.format &&
        (atom.chip.empty() || atom.chip == chip.name))
      return &atom;
  return nullptr;
}

struct SelectAtomsPass : impl::SelectAtomsBase<SelectAtomsPass> {
  using SelectAtomsBase::SelectAtomsBase;

  void runOnOperation() override {
    auto [target, row] = findChip(chip);
    if (!target) {
      getOperation().emitError("there is no chip '") << chip << "'; `m3c targets` lists them";
      return signalPassFailure();
    }
    WalkResult walk = getOperation().walk([&, target = target, row = row](Operation *op) {
      if (!isa<tile::MmaOp, tile::FmaOp, tile::DequantWordsOp, tile::DequantGroupOp,
               tile::QuantGroupOp>(op))
        return WalkResult::advance();
      // The plain spelling serves products with the lanes on the other side.
      if (auto mma = dyn_cast<tile::MmaOp>(op); mma && mma.getSide() == tile::Side::A)
        return WalkResult::advance();
      const Atom *atom = findAtom(*target, *row, op);
      if (!atom) {
        op->emitError("no atom of ")
            << chip << " does this" << (formatOf(op).empty() ? "" : " in format ") << formatOf(op);
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
