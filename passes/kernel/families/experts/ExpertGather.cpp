// The rows of a step in the order of the experts that have them.
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/ExpertKernels.h"

using namespace mlir;

namespace m3c::kernel {

tile::KernelOp buildExpertGather(StepLowering &step, StringRef name, const MoeShape &moe,
                                 const Schedule &schedule) {
  MLIRContext *context = step.module.getContext();
  KernelBuilder kb(step.module, name, "expert_gather", schedule,
                   {countsType(context), listType(context),
                    rowsType(context, moe.hidden, moe.element),
                    rowsType(context, moe.hidden, moe.element)});
  Groups groups(kb, kb.parameter(1), moe.experts);
  Value i = kb.blockId(tile::Axis::X);
  Value entries = kb.mul(kb.loadIndex(kb.parameter(0), {kb.index(0)}), moe.topK);
  kb.when(kb.less(i, entries), [&] {
    Value row = kb.div(groups.entry(i), moe.topK);
    eachChunkByWarp(kb, moe.hidden, chunkOf(schedule), [&](Value col, int64_t cols) {
      Value v = kb.load(kb.parameter(2), {row, col}, {1, cols}, 1, cols);
      kb.store(v, kb.parameter(3), {i, col}, {1, cols});
    });
  });
  return kb.finish();
}

} // namespace m3c::kernel
