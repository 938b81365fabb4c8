#include "passes/targets/common/Target.h"

#include "passes/targets/common/RegisterBudget.h"
#include "passes/targets/gfx950/Gfx950Target.h"
#include "passes/targets/sm100/Sm100Target.h"
#include "passes/targets/sm107/Sm107Target.h"
#include "passes/targets/sm90/Sm90Target.h"
#include "passes/targets/x86/X86Target.h"

#include "llvm/ADT/StringSwitch.h"

namespace m3c {

llvm::StringRef atomFormat(mlir::Operation *op) {
  // The table's keys for products without a table.
  if (auto cached = llvm::dyn_cast<tile::LoadCachedOp>(op); cached && cached.getProduct())
    return llvm::StringSwitch<llvm::StringRef>(*cached.getProduct())
        .Case("multiply", "e2m1.multiply")
        .Case("detour", "e2m1.detour")
        .Default("e2m1.exact");
  if (llvm::isa<tile::TensorKeysOp, tile::OperandValuesOp>(op))
    return op->getAttrOfType<mlir::StringAttr>("product").getValue();
  if (auto attr = op->getAttrOfType<tile::FormatAttr>("format"))
    return tile::stringifyFormat(attr.getValue());
  if (auto mma = llvm::dyn_cast<tile::TensorMmaOp>(op))
    return mma.getOperandFormat();
  if (auto role = llvm::dyn_cast<tile::RoleOp>(op); role && role.getRegisters()) {
    auto kernel = op->getParentOfType<tile::KernelOp>();
    return *role.getRegisters() > kernel.getRegisters().value_or(0) ? "more" : "fewer";
  }
  if (auto mma = llvm::dyn_cast<tile::MmaSharedOp>(op))
    return mma.getA().getType().getElement().isF16() ? "f16" : "";
  auto mma = llvm::dyn_cast<tile::MmaOp>(op);
  if (!mma || mma.getAcc().getType().getLayout() != tile::Layout::MmaAcc)
    return "";
  mlir::Type element = mma.getA().getType().getElement();
  if (llvm::isa<mlir::Float8E4M3FNType>(element))
    return "e4m3";
  return element.isF16() ? "f16" : "bf16";
}

int64_t registersAtEntry(tile::KernelOp kernel, const Chip &chip) {
  if (!kernel.getResidents() || !chip.registerWarps)
    return 0;
  return registersAtEntry(chip.facts.registers, int64_t(kernel.getWarps().value_or(1)),
                          int64_t(*kernel.getResidents()));
}

const std::vector<std::unique_ptr<Target>> &allTargets() {
  static const auto targets = [] {
    std::vector<std::unique_ptr<Target>> list;
    list.push_back(makeX86Target());
    list.push_back(makeSm90Target());
    list.push_back(makeSm100Target());
    list.push_back(makeSm107Target());
    list.push_back(makeGfx950Target());
    return list;
  }();
  return targets;
}

const Target *findTarget(llvm::StringRef name) {
  for (const auto &target : allTargets())
    if (target->name() == name)
      return target.get();
  return nullptr;
}

std::pair<const Target *, const Chip *> findChip(llvm::StringRef name) {
  for (const auto &target : allTargets())
    for (const Chip &chip : target->chips())
      if (chip.name == name)
        return {target.get(), &chip};
  return {nullptr, nullptr};
}

std::pair<const Target *, const Chip *> findChip(mlir::Operation *op, llvm::StringRef name) {
  auto found = findChip(name);
  if (!found.first)
    op->emitError("there is no chip '") << name << "'; `m3c targets` lists them";
  return found;
}

std::pair<const Target *, const Chip *> chipOf(tile::KernelOp kernel, llvm::StringRef passChip) {
  return findChip(kernel, kernel.getChip().value_or(passChip));
}

} // namespace m3c
