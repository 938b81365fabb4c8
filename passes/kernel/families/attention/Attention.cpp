// Family "attention": sparse (pages of a selection) and dense (all pages up to the row's own).
#include "passes/kernel/Families.h"
#include "passes/kernel/families/attention/AttentionPlain.h"
#include "passes/kernel/families/attention/matrix/AttentionMatrix.h"
#include "passes/kernel/families/attention/matrix/AttentionShared.h"
#include "passes/kernel/families/attention/outer/KvOuter.h"
#include "passes/kernel/families/attention/tensor/AttentionTensor.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {
namespace {

/// One attention of a step: asks for a schedule and launches the kernel that it is for.
class AttentionLowering {
public:
  /// `selection`: null for attention to all pages.
  AttentionLowering(StepLowering &step, Value query, m3::CacheType cacheType, Value selection,
                    int64_t layer, double scale, Value result)
      : step(step), cache(step, cacheType), query(query), selection(selection), result(result),
        layer(layer), label(formatv("layers.{0}.attention", layer)), in(storedElement(query)),
        out(storedElement(result)) {
    int64_t width = cast<RankedTensorType>(query.getType()).getShape().back();
    shape = {width / cacheType.getHeadDim(), cacheType.getKvHeads(), cacheType.getHeadDim(), 0,
             scale};
    if (selection)
      shape.selected = cast<RankedTensorType>(selection.getType()).getShape().back();
  }

  LogicalResult lower() {
    Schedule schedule = step.schedule("attention", problem());
    if (schedule.count("tensor_stages"))
      return emitTensorAttention(step, cache, shape, schedule, operands());
    if (isOn(schedule, kvOuterForm))
      return emitKvOuterAttention(step, cache, shape, schedule, operands());
    if (schedule.count("consumers"))
      return (schedule.count("shared_rows") ? emitSharedAttention : emitMatrixAttention)(
          step, cache, shape, schedule, operands());
    launchPlain(schedule);
    return success();
  }

private:
  Schedule problem() {
    const bool matrix = matrixAttentionServes(shape, cache.type, in, out);
    Schedule problem = {{"group", shape.group()},
                        {"dims", shape.dims},
                        {"kv_heads", shape.kvHeads},
                        {"selected", shape.selected},
                        {"page_bytes", 2 * cache.slotBytes},
                        {"cache_bits", cache.bits()},
                        {"activation_bits", in.getIntOrFloatBitWidth()},
                        {"matrix", matrix},
                        {"shared", matrix && sharedAttentionServes(shape, cache.type, in, out)},
                        {kvOuterForm, matrix && kvOuterServes(shape, cache.type, in, out)},
                        {"tensor", matrix && tensorAttentionServes(shape, cache.type, query)}};
    // How pages are shared out decides on the other choices as well.
    if (std::optional<int64_t> flat = step.overrideOf("attention.flat"))
      problem["flat"] = *flat;
    return problem;
  }

  AttentionOperands operands() {
    return {step.rowsOf(query), cache.kvOffsets[layer],
            selection ? step.bufferOf(selection) : Value(), step.makeRows(result, "attention"),
            label};
  }

  tile::KernelOp plainKernel(const Schedule &schedule) {
    std::string name = attentionName(cache, shape, {in, out}, schedule);
    return step.kernel(name, [&] {
      KernelBuilder kb(step.module, name, "attention", schedule, plainParameters(schedule));
      emitPlainAttention(kb, cache, shape, schedule);
      return kb.finish();
    });
  }

  SmallVector<Type> plainParameters(const Schedule &schedule) {
    MLIRContext *context = step.module.getContext();
    constexpr int64_t any = ShapedType::kDynamic;
    auto view = [&](ArrayRef<int64_t> sizes, Type element) {
      return tile::ViewType::get(context, sizes, element, tile::Space::Global);
    };
    SmallVector<Type> types = BatchRows::parameterTypes(context);
    types.append(
        {view({any, shape.heads, shape.dims}, in), view({any}, IntegerType::get(context, 8))});
    if (shape.selected)
      types.push_back(view({any, shape.kvHeads, shape.selected}, IntegerType::get(context, 32)));
    types.push_back(view({any, shape.heads, shape.dims}, out));
    if (splitsParts(schedule))
      types.push_back(partsType(context, shape));
    return types;
  }

  SmallVector<LaunchArgument> argumentsWith(ArrayRef<LaunchArgument> inputs) {
    SmallVector<LaunchArgument> arguments = BatchRows::arguments(step);
    llvm::append_range(arguments, inputs);
    if (selection)
      arguments.push_back({step.bufferOf(selection), planir::Access::Read});
    return arguments;
  }

  void launchPlain(const Schedule &schedule) {
    tile::KernelOp kernel = plainKernel(schedule);
    SmallVector<LaunchArgument> arguments =
        argumentsWith({{step.bufferOf(query), planir::Access::Read},
                       {step.pool(cache.kvOffsets[layer]), planir::Access::Read}});
    Value mean = step.makeBuffer(result, "attention");
    arguments.push_back({mean, planir::Access::Write});
    SmallVector<planir::GridDim> grid = {
        {int64_t(llvm::divideCeil(step.rows, schedule.at("rows"))), 0}, {shape.kvHeads, 0}};
    if (splitsParts(schedule))
      launchParts(kernel, arguments, grid, mean);
    else
      step.launch(kernel, arguments, grid, label);
  }

  /// Each part of a row is a work item; a second launch adds the parts of a row.
  void launchParts(tile::KernelOp kernel, SmallVector<LaunchArgument> &arguments,
                   SmallVector<planir::GridDim> &grid, Value mean) {
    // Of a dense row's parts there are as many as fours of blocks, and one more for the rest.
    int64_t rowBytes = shape.heads * SoftmaxSums::width(shape.dims) * 4;
    int64_t most = llvm::divideCeil(shape.selected, partPages);
    Value parts =
        step.scratch("attention_parts", 0, shape.selected ? 0 : step.rows * rowBytes / partPages,
                     step.rows * rowBytes * std::max<int64_t>(most, 1));
    arguments.push_back({parts, planir::Access::Write});
    // Neighbouring items are neighbouring parts: the last page of one brings the first of the next.
    grid.push_back(grid[0]);
    grid[0] = shape.selected ? planir::GridDim{most, 0} : planir::GridDim{0, partPages};
    step.launch(kernel, arguments, grid, label);
    emitMerge(step, cache, shape, out, argumentsWith({{parts, planir::Access::Read}}), mean,
              label + "_merge");
  }

  StepLowering &step;
  CachePages cache;
  const Value query, selection, result; ///< of m3
  const int64_t layer;
  const std::string label;
  const Type in, out; ///< elements of queries and of the result
  AttentionShape shape;
};

} // namespace

LogicalResult lowerSparseAttention(Operation *op, StepLowering &step) {
  auto attention = cast<m3::SparseAttentionOp>(op);
  return AttentionLowering(step, attention.getQuery(), attention.getCache().getType(),
                           attention.getBlocks(), attention.getLayer(),
                           attention.getScale().convertToDouble(), attention.getResult())
      .lower();
}

LogicalResult lowerDenseAttention(Operation *op, StepLowering &step) {
  auto attention = cast<m3::DenseAttentionOp>(op);
  return AttentionLowering(step, attention.getQuery(), attention.getCache().getType(), {},
                           attention.getLayer(), attention.getScale().convertToDouble(),
                           attention.getResult())
      .lower();
}

} // namespace m3c::kernel
