// Family "project": y = x Wᵀ, with the residual of `residual_project` in the epilogue.
#include "passes/kernel/families/products/Project.h"
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/products/SharedProduct.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

/// Parameters: counts, x [rows,K], weight…, (residual [rows,N]), y [rows,N]. `countIndex` says
/// which entry of counts holds the rows.
static tile::KernelOp buildProject(StepLowering &step, StringRef name, const PackedWeight &weight,
                                   const Schedule &schedule, Type x, Residual residual, Type y,
                                   int64_t countIndex) {
  MLIRContext *context = step.module.getContext();
  SmallVector<Type> types = {countsType(context), multipliedType(context, weight, schedule, x)};
  llvm::append_range(types, weightParameterTypes(context, weight));
  if (residual.rows)
    types.push_back(rowsType(context, weight.outputs, residual.rows.element));
  types.push_back(rowsType(context, weight.outputs, y));

  KernelBuilder kb(step.module, name, "project", schedule, types);
  unsigned next = 2;
  WeightView view = bindWeight(kb, weight, next);
  Value added = residual.rows ? kb.parameter(next++) : Value();
  Value out = kb.parameter(next);

  Value rows = kb.loadIndex(kb.parameter(0), {kb.index(countIndex)});
  Value panel = kb.mul(kb.blockId(tile::Axis::X), schedule.at("panels"));
  auto [rowBegin, rowEnd] = RowBlock(kb, schedule, rows);
  Value global = view.global ? kb.loadScalar(view.global, {kb.index(0)}) : Value();
  Value col = kb.mul(panel, panelOutputs);
  RowEpilogue epilogue;
  if (added)
    epilogue.load = [&](Value row, tile::TileType acc) {
      int64_t count = acc.getRows(), cols = acc.getCols();
      return Values{kb.loadF32(added, {row, col}, {count, cols}, count, cols)};
    };
  epilogue.store = [&, rowEnd = rowEnd](Value acc, Value row, ValueRange loaded) {
    auto type = cast<tile::TileType>(acc.getType());
    Values inputs = {acc};
    llvm::append_range(inputs, loaded);
    Value sum = kb.map(inputs, type.getRows(), type.getCols(), [&](ValueRange args) {
      Value value = global ? kb.mulf(args[0], global) : args[0];
      if (residual.roundsProduct)
        value = kb.round(value, tile::Format::BF16);
      return added ? kb.addf(args[1], value) : value;
    });
    storeColumns(kb, sum, out, row, col, weight.outputs, rowEnd);
  };
  emitProduct(kb, {view, kb.parameter(1), rowBegin, rowEnd, panel, {}, schedule}, epilogue);
  return kb.finish();
}

LogicalResult emitProject(StepLowering &step, RowBuffer x, FlatSymbolRefAttr symbol,
                          Residual residual, RowBuffer y, bool logitRows) {
  m3::WeightOp weightOp = step.weightOp(symbol.getValue());
  Schedule problem = productProblem(weightOp, x.element, y.element.getIntOrFloatBitWidth());
  problem[sharedRowsForm] = 1;
  Schedule choice = step.schedule("project", problem);
  FailureOr<PackedWeight> weight =
      step.pack(symbol.getValue(), weightOp, false, usesFragments(choice));
  if (failed(weight))
    return failure();
  Schedule schedule = fitSchedule(choice, *weight, 1, step.rows);
  noteOneTile(schedule, step.rows);
  SmallVector<Type> elements = {x.element, y.element};
  if (residual.rows)
    elements.push_back(residual.rows.element);
  std::string name =
      formatv("project_{0}{1}{2}{3}{4}{5}", spell(*weight), residual.rows ? "_residual" : "",
              residual.roundsProduct ? "_rounded" : "", logitRows ? "_logits" : "",
              spellElements(elements), spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    return buildProject(step, name, *weight, schedule, x.element, residual, y.element,
                        logitRows ? 2 : 0);
  });
  SmallVector<LaunchArgument> arguments = {
      {step.batch(planir::BatchArray::Counts), planir::Access::Read},
      {multipliedRows(step, x, *weight, schedule, logitRows ? 2 : 0, symbol.getValue()),
       planir::Access::Read}};
  addWeightArguments(step, *weight, arguments);
  if (residual.rows)
    arguments.push_back({residual.rows.buffer, planir::Access::Read});
  arguments.push_back({y.buffer, planir::Access::Write});
  step.launch(kernel, arguments, productGrid(schedule, weight->panels, step.rows),
              symbol.getValue());
  return success();
}

LogicalResult lowerProject(Operation *op, StepLowering &step) {
  auto project = cast<m3::ProjectOp>(op);
  bool logitRows = project.getX().getDefiningOp<m3::GatherRowsOp>() != nullptr;
  RowBuffer x = step.rowsOf(project.getX());
  RowBuffer y = step.makeRows(project.getResult(), project.getWeight());
  return emitProject(step, x, project.getWeightAttr(), {}, y, logitRows);
}

/// m3.fused "residual_project"(h, x): h + x Wᵀ. The product is rounded as its type says.
LogicalResult lowerResidualProject(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  auto project = *fused.getBody().front().getOps<m3::ProjectOp>().begin();
  auto sum = *fused.getBody().front().getOps<arith::AddFOp>().begin();
  Value added = sum.getLhs() == project.getResult() ? sum.getRhs() : sum.getLhs();
  RowBuffer x = step.rowsOf(outerValue(fused, project.getX()));
  Residual residual = {step.rowsOf(outerValue(fused, added)),
                       !storedElement(project.getResult()).isF32()};
  RowBuffer y = step.makeRows(fused.getOutputs()[0], project.getWeight());
  return emitProject(step, x, project.getWeightAttr(), residual, y, false);
}

} // namespace m3c::kernel
