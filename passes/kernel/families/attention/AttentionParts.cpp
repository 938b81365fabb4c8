#include "passes/kernel/families/attention/AttentionParts.h"

#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

void SoftmaxSums::eachChunk(function_ref<void(Value)> body) {
  kb.forLoop(kb.index(0), kb.index(dims), 16, body);
}

void SoftmaxSums::clear(Value slot) {
  eachChunk([&](Value d) { kb.store(kb.fill(0.0, 1, 16), view, {slot, d}, {1, 16}); });
  setLargest(slot, kb.f32(-std::numeric_limits<float>::infinity()));
  setWeight(slot, kb.f32(0.0));
}

void SoftmaxSums::copy(Value slot, SoftmaxSums &from, Value fromSlot) {
  eachChunk([&](Value d) {
    kb.store(kb.load(from.view, {fromSlot, d}, {1, 16}, 1, 16), view, {slot, d}, {1, 16});
  });
  setLargest(slot, from.largest(fromSlot));
  setWeight(slot, from.weight(fromSlot));
}

void SoftmaxSums::add(Value slot, SoftmaxSums &part, Value partSlot) {
  Value before = largest(slot), other = part.largest(partSlot);
  Value now = kb.maxf(before, other);
  Value keep = kb.expf(kb.subf(before, now)), take = kb.expf(kb.subf(other, now));
  auto sum = [&](Value old, Value added) {
    return kb.addf(kb.mulf(old, keep), kb.mulf(added, take));
  };
  setLargest(slot, now);
  setWeight(slot, sum(weight(slot), part.weight(partSlot)));
  eachChunk([&](Value d) {
    Value old = kb.load(view, {slot, d}, {1, 16}, 1, 16);
    Value added = kb.load(part.view, {partSlot, d}, {1, 16}, 1, 16);
    kb.store(kb.map({old, added}, 1, 16, [&](ValueRange args) { return sum(args[0], args[1]); }),
             view, {slot, d}, {1, 16});
  });
}

void SoftmaxSums::storeMean(Value slot, const CachePages &cache, Value out, Value row, Value head) {
  Value inverse = kb.divf(kb.f32(1.0), weight(slot));
  eachChunk([&](Value d) {
    Value sum = loadFromSlotOrder(kb, cache, view, {slot, d}, {1, 16});
    Value mean = kb.map(sum, 1, 16, [&](ValueRange args) { return kb.mulf(args[0], inverse); });
    kb.storeF32(mean, out, {row, head, d}, {1, 1, 16});
  });
}

Value partsOfRow(KernelBuilder &kb, BatchRows &batch, int64_t selected) {
  if (selected)
    return kb.index(llvm::divideCeil(selected, partPages));
  return kb.ceilDiv(batch.tableLength, partPages);
}

/// Parameters: batch rows, parts, (selection), out. Work item: a row.
static void mergeParts(KernelBuilder &kb, const CachePages &cache, const AttentionShape &shape,
                       BatchRows &batch, Value parts, Value selection, Value out) {
  SoftmaxSums from(kb, parts, shape.dims);
  SoftmaxSums total(kb, kb.alloc({1, SoftmaxSums::width(shape.dims)}, kb.f32Type()), shape.dims);
  Value row = kb.blockId(tile::Axis::X), zero = kb.index(0);
  int64_t group = shape.group();
  kb.when(kb.less(row, batch.rows), [&] {
    Value room = partsOfRow(kb, batch, shape.selected);
    kb.forLoop(zero, kb.index(shape.kvHeads), 1, [&](Value kvHead) {
      // Selected blocks stand at the front of their list.
      Value count =
          shape.selected
              ? kb.forLoop(kb.index(partPages), kb.index(shape.selected), partPages, kb.index(1),
                           [&](Value i, ValueRange carried) {
                             Value block = kb.loadIndex(selection, {row, kvHead, i});
                             Value more = kb.atLeast(block, zero);
                             return Values{kb.selectf(more, kb.add(carried[0], 1), carried[0])};
                           })[0]
              : kb.ceilDiv(kb.add(kb.div(batch.position(row), m3::blockTokens), 1), partPages);
      kb.when(kb.less(kb.index(1), count), [&] {
        kb.forLoop(zero, kb.index(group), 1, [&](Value inGroup) {
          Value head = kb.add(kb.mul(kvHead, group), inGroup);
          Value base = kb.mul(kb.add(kb.mul(row, shape.heads), head), room);
          total.clear(zero);
          kb.forLoop(zero, count, 1,
                     [&](Value part) { total.add(zero, from, kb.add(base, part)); });
          total.storeMean(zero, cache, out, row, head);
        });
      });
    });
  });
}

Type partsType(MLIRContext *context, const AttentionShape &shape) {
  return tile::ViewType::get(context, {ShapedType::kDynamic, SoftmaxSums::width(shape.dims)},
                             Float32Type::get(context), tile::Space::Global);
}

void emitMerge(StepLowering &step, const CachePages &cache, const AttentionShape &shape, Type out,
               SmallVector<LaunchArgument> arguments, Value mean, StringRef label) {
  std::string name =
      formatv("attention_merge_{0}_{1}h{2}x{3}_k{4}{5}", cache.paired() ? "paired" : "plain",
              shape.heads, shape.kvHeads, shape.dims, shape.selected, spellElements({out}));
  MLIRContext *context = step.module.getContext();
  tile::KernelOp kernel = step.kernel(name, [&] {
    constexpr int64_t any = ShapedType::kDynamic;
    auto view = [&](ArrayRef<int64_t> sizes, Type element) {
      return tile::ViewType::get(context, sizes, element, tile::Space::Global);
    };
    SmallVector<Type> types = BatchRows::parameterTypes(context);
    types.push_back(partsType(context, shape));
    if (shape.selected)
      types.push_back(view({any, shape.kvHeads, shape.selected}, IntegerType::get(context, 32)));
    types.push_back(view({any, shape.heads, shape.dims}, out));
    KernelBuilder kb(step.module, name, "attention_merge", {}, types);
    BatchRows batch(kb);
    mergeParts(kb, cache, shape, batch, kb.parameter(4), shape.selected ? kb.parameter(5) : Value(),
               kb.parameter(shape.selected ? 6 : 5));
    return kb.finish();
  });
  // Rows of one part have their mean already.
  arguments.push_back({mean, planir::Access::ReadWrite});
  step.launch(kernel, arguments, {{step.rows, 0}}, label);
}

} // namespace m3c::kernel
