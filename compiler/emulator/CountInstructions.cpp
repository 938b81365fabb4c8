#include "compiler/emulator/CountInstructions.h"

#include "passes/targets/common/emulated/emulator.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

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

/// Writes the counting of one function.
class Counting {
public:
  Counting(Function &function, FunctionAnalysisManager &analyses)
      : function(function), dominators(analyses.getResult<DominatorTreeAnalysis>(function)),
        after(analyses.getResult<PostDominatorTreeAnalysis>(function)),
        loops(analyses.getResult<LoopAnalysis>(function)),
        evolution(analyses.getResult<ScalarEvolutionAnalysis>(function)),
        costs(analyses.getResult<TargetIRAnalysis>(function)), expander(evolution, "turns") {}

  void run() {
    MapVector<BasicBlock *, uint64_t> counted;
    for (auto [block, first] : firstOfEach())
      counted[first] += uint64_t(llvm::count_if(*block, counts));
    for (auto [block, count] : counted)
      if (count && !addBeforeLoop(*block, count))
        add(*block, ConstantInt::get(Type::getInt64Ty(function.getContext()), count));
  }

private:
  /// Each block with the first of those that are executed whenever it is: blocks between which an
  /// access was checked, or a branch was taken and came back. One of them counts for all.
  MapVector<BasicBlock *, BasicBlock *> firstOfEach() {
    MapVector<BasicBlock *, BasicBlock *> first;
    for (BasicBlock *block : ReversePostOrderTraversal<Function *>(&function)) {
      first[block] = block;
      auto *before = dominators.getNode(block)->getIDom();
      if (!before)
        continue;
      BasicBlock *other = before->getBlock();
      if (after.dominates(block, other) && loops.getLoopFor(block) == loops.getLoopFor(other))
        first[block] = first[other];
    }
    return first;
  }

  /// What every turn of a loop does, counted once in front of it, where the turns are known there.
  bool addBeforeLoop(BasicBlock &block, uint64_t count) {
    Loop *loop = loops.getLoopFor(&block);
    BasicBlock *before = loop && loop->getHeader() == &block ? loop->getLoopPreheader() : nullptr;
    const SCEV *again = before ? evolution.getBackedgeTakenCount(loop) : nullptr;
    if (!again || isa<SCEVCouldNotCompute>(again) || !again->getType()->isIntegerTy() ||
        expander.isHighCostExpansion(again, loop, SCEVCheapExpansionBudget, &costs,
                                     before->getTerminator()) ||
        !expander.isSafeToExpandAt(again, before->getTerminator()))
      return false;
    Value *turns = expander.expandCodeFor(again, again->getType(), before->getTerminator());
    IRBuilder<> builder(before->getTerminator());
    turns = builder.CreateAdd(builder.CreateZExtOrTrunc(turns, builder.getInt64Ty()),
                              builder.getInt64(1));
    add(*before, builder.CreateMul(turns, builder.getInt64(count)));
    return true;
  }

  static void add(BasicBlock &block, Value *count) {
    constexpr unsigned ofGs = 256; // LLVM's number of that segment
    IRBuilder<> builder(block.getTerminator());
    Constant *offset = builder.getInt64(offsetof(m3emu::Current, instructions));
    Value *counter = ConstantExpr::getIntToPtr(offset, PointerType::get(block.getContext(), ofGs));
    Value *before = builder.CreateLoad(builder.getInt64Ty(), counter);
    builder.CreateStore(builder.CreateAdd(before, count), counter);
  }

  Function &function;
  DominatorTree &dominators;
  PostDominatorTree &after;
  LoopInfo &loops;
  ScalarEvolution &evolution;
  TargetTransformInfo &costs;
  SCEVExpander expander;
};

class CountPass : public PassInfoMixin<CountPass> {
public:
  PreservedAnalyses run(Function &function, FunctionAnalysisManager &analyses) {
    if (isApart(function))
      return PreservedAnalyses::all();
    Counting(function, analyses).run();
    return PreservedAnalyses::none();
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
