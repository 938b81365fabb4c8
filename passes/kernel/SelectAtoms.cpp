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

/// A role that takes or gives up registers when it begins, on a chip whose roles can.
bool changesRegisters(tile::RoleOp role, const Chip &chip) {
  auto kernel = role->getParentOfType<tile::KernelOp>();
  return isa<tile::RolesOp>(role->getParentOp()) && role.getRegisters() && chip.registerWarps &&
         role.getRegisters() != kernel.getRegisters();
}

/// How many registers a thread begins with, where roles change them.
void setRegistersAtEntry(tile::KernelOp kernel, const Chip &chip) {
  kernel.walk([&](tile::RolesOp roles) {
    if (int64_t registers = registersAtEntry(kernel, chip); roles.hasBudgets() && registers)
      kernel.setRegisters(registers);
  });
}

struct SelectAtomsPass : impl::SelectAtomsBase<SelectAtomsPass> {
  using SelectAtomsBase::SelectAtomsBase;

  void runOnOperation() override {
    auto [target, row] = chipOf(getOperation(), chip);
    if (!target)
      return signalPassFailure();
    setRegistersAtEntry(getOperation(), *row);
    WalkResult walk = getOperation().walk([&, target = target, row = row](Operation *op) {
      if (!isa<tile::MmaOp, tile::FmaOp, tile::DequantWordsOp, tile::DequantFragmentOp,
               tile::DequantGroupOp, tile::QuantGroupOp, tile::QuantGroupsOp, tile::LoadCachedOp,
               tile::MmaGroupsOp, tile::FillStageOp, tile::AwaitLaunchOp, tile::AllowLaunchOp,
               tile::TensorKeysOp, tile::OperandValuesOp, tile::TensorMmaOp, tile::TensorLoadOp,
               tile::TensorStoreOp, tile::PackRowsOp, tile::MmaSharedOp, tile::MmaWaitOp,
               tile::ShareSlotOp, tile::RoleOp>(op))
        return WalkResult::advance();
      if (auto role = dyn_cast<tile::RoleOp>(op); role && !changesRegisters(role, *row))
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
