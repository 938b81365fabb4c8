// Gate and up products of experts with SwiGLU.
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/ExpertKernels.h"
#include "passes/kernel/products/SharedProduct.h"

using namespace mlir;

namespace m3c::kernel {

void eachRowBlock(KernelBuilder &kb, Value begin, Value end, const Schedule &schedule,
                  llvm::function_ref<void(Value blockBegin, Value blockEnd)> body) {
  auto found = schedule.find("row_block");
  if (found == schedule.end() || sharesRows(schedule)) { // a tile of those has one block
    body(begin, end);
    return;
  }
  int64_t block = found->second;
  kb.forLoop(begin, end, block,
             [&](Value blockBegin) { body(blockBegin, kb.min(kb.add(blockBegin, block), end)); });
}

void emitUpProduct(KernelBuilder &kb, const Product &product, Value panel, Value z, Value expert,
                   const MoeShape &moe) {
  const WeightView &weight = product.weight;
  int64_t outputs = weight.shape.outputs / 2;
  auto scale = [&](int64_t i) {
    return weight.global ? kb.loadScalar(weight.global, {kb.add(kb.mul(expert, 2), i)}) : Value();
  };
  Value gateScale = scale(0), upScale = scale(1);
  eachRowBlock(kb, product.rowBegin, product.rowEnd, product.schedule, [&](Value begin, Value end) {
    Product block = product;
    block.rowBegin = begin;
    block.rowEnd = end;
    block.pairs = true;
    emitProduct(kb, block, [&](Value acc, Value row) {
      emitPairedSwiglu(kb, acc, sharesRows(product.schedule), gateScale, upScale, moe.alpha,
                       moe.limit, [&](Value out, int64_t output) {
                         Value col = kb.add(kb.mul(kb.div(panel, 2), panelOutputs), output);
                         storeColumns(kb, out, z, row, col, outputs, end);
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
      Value first = kb.add(kb.mul(expert, moe.up.panels), panel);
      emitUpProduct(kb, {up, kb.parameter(2), begin, end, first, rowOfX, routed}, panel, z, expert,
                    moe);
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
      Value rows = kb.loadIndex(kb.parameter(0), {zero});
      emitUpProduct(kb, {view, x, zero, rows, panel, {}, shared}, panel, zs, zero, moe);
    });
  };
  kb.when(kb.less(item, zero), sharedPart, routedPart);
  return kb.finish();
}

} // namespace m3c::kernel
