#include "passes/kernel/families/attention/PartedAttention.h"

#include "passes/kernel/families/attention/FlatRows.h"
#include "passes/kernel/products/Product.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

bool isFlat(const Schedule &schedule) { return isOn(schedule, "flat"); }

int64_t fanOf(const Schedule &schedule) {
  return choiceOf(schedule, "merge", schedule.at("parts"));
}

std::string attentionName(const CachePages &cache, const AttentionShape &shape,
                          ArrayRef<Type> elements, const Schedule &schedule) {
  return formatv("attention_{0}_{1}h{2}x{3}_k{4}_s{5}{6}{7}", cache.spell(), shape.heads,
                 shape.kvHeads, shape.dims, shape.selected,
                 llvm::utohexstr(llvm::bit_cast<uint64_t>(shape.scale)), spellElements(elements),
                 spell(schedule));
}

static constexpr int64_t lanes = 32; // of a warp that has a row's choices

Value loadChoices(KernelBuilder &kb, Value selection, Value at, int64_t selected) {
  Value inside = kb.map(kb.iota(lanes), kb.tile(1, lanes, kb.i32Type()),
                        [&](ValueRange args) { return kb.min(args[0], kb.i32(selected - 1)); });
  return kb.gather(selection, at, inside);
}

Value countChoices(KernelBuilder &kb, Value choices, int64_t selected) {
  Value named =
      kb.map({choices, kb.iota(lanes)}, kb.tile(1, lanes, kb.i32Type()), [&](ValueRange args) {
        Value names = kb.both(kb.atLeast(args[0], kb.i32(0)), kb.less(args[1], kb.i32(selected)));
        return kb.selectf(names, kb.i32(1), kb.i32(0));
      });
  return kb.toIndex(kb.extract(kb.reduce(tile::ReduceKind::Add, named), 0, 0));
}

static SmallVector<Type> parameterTypes(MLIRContext *context, const AttentionShape &shape,
                                        const AttentionOperands &operands,
                                        const std::optional<PartMemory> &memory) {
  constexpr int64_t any = ShapedType::kDynamic;
  auto view = [&](ArrayRef<int64_t> sizes, Type element) -> Type {
    return tile::ViewType::get(context, sizes, element, tile::Space::Global);
  };
  auto bits = [&](unsigned width) { return IntegerType::get(context, width); };
  SmallVector<Type> types = BatchRows::parameterTypes(context);
  types.append({view({any, shape.dims}, operands.query.element), view({any}, bits(8))});
  if (shape.selected)
    types.push_back(view({any}, bits(32)));
  types.push_back(view({any, shape.dims}, operands.mean.element));
  if (memory) {
    SmallVector<int64_t> values = {any};
    llvm::append_range(values, memory->values);
    Type f32 = Float32Type::get(context);
    types.append({view(values, f32), view({any, 2, attentionHeads}, f32), view({any}, bits(32))});
  }
  return types;
}

static AttentionParameters bindParameters(KernelBuilder &kb, const AttentionShape &shape,
                                          bool hasMemory) {
  AttentionParameters parameters;
  unsigned next = 4; // after the batch rows
  parameters.query = kb.parameter(next++);
  parameters.pool = kb.parameter(next++);
  if (shape.selected)
    parameters.selection = kb.parameter(next++);
  parameters.out = kb.parameter(next++);
  if (hasMemory) {
    parameters.partValues = kb.parameter(next);
    parameters.partRows = kb.parameter(next + 1);
    parameters.arrivals = kb.parameter(next + 2);
  }
  return parameters;
}

LogicalResult
emitPartedAttention(StepLowering &step, const CachePages &cache, const AttentionShape &shape,
                    const Schedule &schedule, const AttentionOperands &operands,
                    const std::optional<PartMemory> &memory,
                    function_ref<void(KernelBuilder &, const AttentionParameters &)> emit,
                    int64_t tileRows) {
  if (isFlat(schedule) && step.rows > FlatRows::mostRows)
    return mlir::emitError(step.module.getLoc())
           << "attention.flat shares out the pages of " << FlatRows::mostRows
           << " rows at most, the step has " << step.rows << "; leave it to the target's table";
  std::string name =
      attentionName(cache, shape, {operands.query.element, operands.mean.element}, schedule);
  tile::KernelOp kernel = step.kernel(name, [&] {
    KernelBuilder kb(step.module, name, "attention", schedule,
                     parameterTypes(step.module.getContext(), shape, operands, memory));
    emit(kb, bindParameters(kb, shape, memory.has_value()));
    return kb.finish();
  });
  SmallVector<LaunchArgument> arguments = BatchRows::arguments(step);
  arguments.append({{operands.query.buffer, planir::Access::Read},
                    {step.pool(operands.poolOffset), planir::Access::Read}});
  if (operands.selection)
    arguments.push_back({operands.selection, planir::Access::Read});
  arguments.push_back({operands.mean.buffer, planir::Access::Write});
  int64_t tiles = llvm::divideCeil(step.rows, tileRows);
  if (memory) {
    int64_t items = tiles * shape.kvHeads, slots = items * memory->slots;
    FailureOr<Value> counters = step.counters(items * memory->counters);
    if (failed(counters))
      return failure();
    int64_t valueBytes = attentionHeads * shape.dims * 4, rowBytes = 2 * attentionHeads * 4;
    arguments.append(
        {{step.scratch("attention_parts", 0, 0, slots * valueBytes), planir::Access::Write},
         {step.scratch("attention_rows", 0, 0, slots * rowBytes), planir::Access::Write},
         {*counters, planir::Access::ReadWrite}});
  }
  // Where the parts of a row are a cluster, that is one of them.
  int64_t parts = schedule.at("parts") / int64_t(kernel.getCluster().value_or(1));
  step.launch(kernel, arguments, {{parts, 0}, {shape.kvHeads, 0}, {tiles, 0}}, operands.label);
  return success();
}

} // namespace m3c::kernel
