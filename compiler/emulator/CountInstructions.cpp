#include "compiler/emulator/CountInstructions.h"

#include "passes/targets/common/emulated/emulator.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Passes/PassBuilder.h"

#include <cstddef>

namespace m3c::emulator {

namespace {

using namespace llvm;

StringRef baseName(const DIFile *file) {
  return file ? file->getFilename().rsplit('/').second : StringRef();
}

/// Where an instruction stands, innermost; null where the optimiser made it.
const DISubprogram *placeOf(const Instruction &instruction) {
  const DebugLoc &at = instruction.getDebugLoc();
  return at ? cast<DILocalScope>(at.getScope())->getSubprogram() : nullptr;
}

bool counts(const Instruction &instruction) {
  if (isa<PHINode>(instruction) || instruction.isDebugOrPseudoInst() ||
      instruction.isLifetimeStartOrEnd())
    return false;
  const DISubprogram *place = placeOf(instruction);
  if (!place || baseName(place->getFile()) != "emulator.h")
    return true;
  auto *call = dyn_cast<CallBase>(&instruction);
  return call && call->isIndirectCall() && !place->getName().starts_with("access");
}

/// A function of an emulated header: what threads execute of these headers is inlined into them.
bool isApart(const Function &function) {
  const DISubprogram *place = function.getSubprogram();
  StringRef file = place ? baseName(place->getFile()) : StringRef();
  return file.ends_with("atoms.h") ||
         is_contained({"access.h", "codes.h", "cuda.h", "emulator.h", "hip.h", "matrix.h"}, file);
}

class CountPass : public PassInfoMixin<CountPass> {
public:
  PreservedAnalyses run(Function &function, FunctionAnalysisManager &) {
    if (isApart(function))
      return PreservedAnalyses::all();
    for (BasicBlock &block : function) {
      auto count = uint64_t(llvm::count_if(block, counts));
      if (count)
        add(block, count);
    }
    PreservedAnalyses kept;
    kept.preserveSet<CFGAnalyses>();
    return kept;
  }

private:
  static void add(BasicBlock &block, uint64_t count) {
    constexpr unsigned ofGs = 256; // LLVM's number of that segment
    IRBuilder<> builder(block.getContext());
    builder.SetInsertPoint(block.getTerminator());
    Constant *offset = builder.getInt64(offsetof(m3emu::Current, instructions));
    Value *counter = ConstantExpr::getIntToPtr(offset, PointerType::get(block.getContext(), ofGs));
    Value *before = builder.CreateLoad(builder.getInt64Ty(), counter);
    builder.CreateStore(builder.CreateAdd(before, builder.getInt64(count)), counter);
  }
};

} // namespace

void addInstructionCounts(PassBuilder &passes) {
  passes.registerOptimizerLastEPCallback(
      [](ModulePassManager &manager, OptimizationLevel, ThinOrFullLTOPhase) {
        manager.addPass(createModuleToFunctionPassAdaptor(CountPass()));
      });
}

} // namespace m3c::emulator
