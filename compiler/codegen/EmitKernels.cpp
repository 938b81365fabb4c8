#include "compiler/codegen/EmitKernels.h"

#include "passes/kernel/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/LocationSnapshot.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace m3c::codegen {

static std::string scheduleText(tile::KernelOp kernel) {
  std::string text;
  for (NamedAttribute entry : kernel.getSchedule()) {
    text += (text.empty() ? "" : " ") + entry.getName().str() + "=";
    if (auto number = dyn_cast<IntegerAttr>(entry.getValue()))
      text += std::to_string(number.getInt());
    else
      llvm::raw_string_ostream(text) << entry.getValue();
  }
  return text;
}

std::vector<EmittedKernel> emitKernels(ModuleOp module, const Target &target, const Chip &chip) {
  std::string messages;
  ScopedDiagnosticHandler collect(module.getContext(), [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(messages) << diagnostic.getLocation() << ": " << diagnostic << "\n";
    return success();
  });
  auto fail = [&](const std::string &what) {
    throw Error(what, "target " + target.name().str() + ", chip " + chip.name, messages,
                "change the schedule (--schedule family.choice=value) or the kernel text");
  };

  PassManager passes(module.getContext());
  OpPassManager &kernels = passes.nest<tile::KernelOp>();
  kernels.addPass(createCSEPass());
  kernels.addPass(kernel::createSelectAtoms({chip.name}));
  kernels.addPass(kernel::createAssignShared());
  kernels.addPass(kernel::createCheckLimits({chip.name}));
  if (failed(passes.run(module)))
    fail("the kernels cannot be lowered for this chip");

  std::vector<EmittedKernel> emitted;
  for (tile::KernelOp kernel : module.getOps<tile::KernelOp>()) {
    EmittedKernel result;
    llvm::raw_string_ostream ir(result.ir);
    // Printing gives every op the line of its own text as its location.
    generateLocationsFromIR(ir, kernel.getSymName().str() + ".mlir", kernel, OpPrintingFlags());
    FailureOr<std::string> text = printKernel(kernel, target.entryStyle());
    if (failed(text))
      fail("kernel " + kernel.getSymName().str() + " cannot be printed");
    result.name = kernel.getSymName();
    result.family = kernel.getFamily();
    result.text = *text;
    result.schedule = scheduleText(kernel);
    result.sharedBytes = kernel.getSharedBytes().value_or(0);
    result.parameters = kernel.getArgumentTypes().size();
    emitted.push_back(std::move(result));
  }
  return emitted;
}

} // namespace m3c::codegen
