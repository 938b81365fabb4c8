// Which rows each expert has, and those rows in the order of the experts.
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/ExpertKernels.h"

using namespace mlir;

namespace m3c::kernel {

tile::KernelOp buildExpertGroup(StepLowering &step, StringRef name, const MoeShape &moe) {
  MLIRContext *context = step.module.getContext();
  KernelBuilder kb(step.module, name, "expert_group", {},
                   {countsType(context), listType(context), listType(context)});
  Groups groups(kb, kb.parameter(2), moe.experts);
  Value ids = kb.parameter(1), zero = kb.index(0), experts = kb.index(moe.experts);
  Value entries = kb.mul(kb.loadIndex(kb.parameter(0), {zero}), moe.topK);
  Value next = kb.alloc({moe.experts}, kb.i32Type()); // entries of an expert, then its next place
  kb.forLoop(zero, experts, 1, [&](Value e) { kb.storeScalar(kb.i32(0), next, {e}); });
  kb.forLoop(zero, entries, 1, [&](Value i) {
    Value e = kb.loadIndex(ids, {i});
    kb.storeScalar(kb.add(kb.loadIndex(next, {e}), 1), next, {e});
  });
  Values total = kb.forLoop(zero, experts, 1, {zero, zero}, [&](Value e, ValueRange carried) {
    Value count = kb.loadIndex(next, {e});
    kb.storeScalar(carried[1], next, {e});
    return kb.choose(
        kb.less(zero, count),
        [&] {
          groups.setExpert(carried[0], e);
          groups.setBegin(carried[0], carried[1]);
          return Values{kb.add(carried[0], 1), kb.add(carried[1], count)};
        },
        [&] { return Values{carried[0], carried[1]}; });
  });
  groups.setActive(total[0]);
  groups.setBegin(total[0], total[1]);
  kb.forLoop(zero, entries, 1, [&](Value i) {
    Value e = kb.loadIndex(ids, {i});
    Value place = kb.loadIndex(next, {e});
    groups.setEntry(place, i);
    kb.storeScalar(kb.add(place, 1), next, {e});
  });
  return kb.finish();
}

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
