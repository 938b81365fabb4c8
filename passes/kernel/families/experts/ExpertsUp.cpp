// Gate and up products of experts with SwiGLU.
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/ExpertKernels.h"

using namespace mlir;

namespace m3c::kernel {

void eachRowBlock(KernelBuilder &kb, Value begin, Value end, const Schedule &schedule,
                  llvm::function_ref<void(Value blockBegin, Value blockEnd)> body) {
  auto found = schedule.find("row_block");
  if (found == schedule.end()) {
    body(begin, end);
    return;
  }
  int64_t block = found->second;
  kb.forLoop(begin, end, block,
             [&](Value blockBegin) { body(blockBegin, kb.min(kb.add(blockBegin, block), end)); });
}

/// Gate and up products of rows [begin, end) with SwiGLU, for the panels of this work item.
static void emitUp(KernelBuilder &kb, const WeightView &weight, Value x, Value z, Value begin,
                   Value end, Value firstPanel, Value panel, const RowList &rowOfX, Value gateScale,
                   Value upScale, const MoeShape &moe, const Schedule &schedule) {
  int64_t outputs = weight.shape.outputs / 2;
  eachRowBlock(kb, begin, end, schedule, [&](Value blockBegin, Value blockEnd) {
    Product product{weight, x, blockBegin, blockEnd, kb.add(firstPanel, panel), rowOfX, schedule};
    emitProduct(kb, product, [&](Value acc, Value row) {
      emitPairedSwiglu(kb, acc, gateScale, upScale, moe.alpha, moe.limit,
                       [&](Value out, int64_t pair) {
                         Value col = kb.mul(kb.add(kb.div(panel, 2), pair), panelOutputs);
                         storeColumns(kb, out, z, row, col, outputs, blockEnd);
                       });
    });
  });
}

tile::KernelOp buildExpertsUp(StepLowering &step, StringRef name, const MoeShape &moe,
                              const Schedule &routed, const Schedule &shared, bool gathered) {
  MLIRContext *context = step.module.getContext();
  SmallVector<Type> types = {countsType(context), listType(context),
                             rowsType(context, moe.hidden, moe.element)};
  llvm::append_range(types, weightParameterTypes(context, moe.up));
  types.push_back(rowsType(context, moe.width(), moe.element));
  if (moe.sharedUp) {
    types.push_back(rowsType(context, moe.hidden, moe.element));
    llvm::append_range(types, weightParameterTypes(context, *moe.sharedUp));
    types.push_back(rowsType(context, moe.sharedWidth(), moe.element));
  }
  KernelBuilder kb(step.module, name, "experts_up", routed, types);
  kb.useWarps(shared);
  unsigned next = 3;
  WeightView up = bindWeight(kb, moe.up, next);
  Value z = kb.parameter(next++);
  Groups groups(kb, kb.parameter(1), moe.experts);
  // Panels first: neighbours read one run of memory, and the same rows. The shared expert has the
  // most to do and goes first.
  Value part = kb.blockId(tile::Axis::X), zero = kb.index(0);
  Value item = kb.sub(kb.blockId(tile::Axis::Y), kb.index(moe.sharedUp ? 1 : 0));

  auto routedPart = [&] {
    Value panel = kb.mul(part, routed.at("panels"));
    // All that the list says of the item is asked for at once; past the last expert it is not used.
    Value active = groups.active(), expert = groups.expert(item);
    Value begin = groups.begin(item), end = groups.end(item);
    Value exists = kb.both(kb.less(item, active), kb.less(panel, kb.index(moe.up.panels)));
    kb.when(exists, [&] {
      RowList rowOfX;
      if (!gathered)
        rowOfX = {groups.view(), groups.firstEntry(), moe.topK};
      auto scale = [&](int64_t i) {
        return up.global ? kb.loadScalar(up.global, {kb.add(kb.mul(expert, 2), i)}) : Value();
      };
      emitUp(kb, up, kb.parameter(2), z, begin, end, kb.mul(expert, moe.up.panels), panel, rowOfX,
             scale(0), scale(1), moe, routed);
    });
  };
  if (!moe.sharedUp) {
    routedPart();
    return kb.finish();
  }
  Value x = kb.parameter(next++);
  WeightView view = bindWeight(kb, *moe.sharedUp, next);
  Value zs = kb.parameter(next);
  auto sharedPart = [&] {
    Value panel = kb.mul(part, shared.at("panels"));
    kb.when(kb.less(panel, kb.index(moe.sharedUp->panels)), [&] {
      auto scale = [&](int64_t i) {
        return view.global ? kb.loadScalar(view.global, {kb.index(i)}) : Value();
      };
      emitUp(kb, view, x, zs, zero, kb.loadIndex(kb.parameter(0), {zero}), zero, panel, {},
             scale(0), scale(1), moe, shared);
    });
  };
  kb.when(kb.less(item, zero), sharedPart, routedPart);
  return kb.finish();
}

} // namespace m3c::kernel
