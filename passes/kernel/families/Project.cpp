// Family "project": y = x Wᵀ, with the residual of `residual_project` in the epilogue.
#include "passes/kernel/families/Project.h"
#include "passes/kernel/Families.h"
#include "passes/kernel/Product.h"
#include "passes/kernel/families/Common.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

/// Parameters: counts, x [rows,K], weight…, (residual [rows,N]), y [rows,N]. `countIndex` says
/// which entry of counts holds the rows.
static tile::KernelOp buildProject(StepLowering &step, StringRef name, const PackedWeight &weight,
                                   const Schedule &schedule, bool residual, int64_t countIndex) {
  MLIRContext *context = step.module.getContext();
  SmallVector<Type> types = {countsType(context), rowsType(context, weight.k)};
  llvm::append_range(types, weightParameterTypes(context, weight));
  if (residual)
    types.push_back(rowsType(context, weight.outputs));
  types.push_back(rowsType(context, weight.outputs));

  KernelBuilder kb(step.module, name, "project", schedule, types);
  unsigned next = 2;
  WeightView view = bindWeight(kb, weight, next);
  Value added = residual ? kb.parameter(next++) : Value();
  Value y = kb.parameter(next);

  Value rows = kb.loadIndex(kb.parameter(0), {kb.index(countIndex)});
  Value panel = kb.mul(kb.blockId(tile::Axis::X), schedule.at("panels"));
  Value rowBegin = kb.index(0), rowEnd = rows;
  if (schedule.at("ring")) {
    rowBegin = kb.mul(kb.blockId(tile::Axis::Y), schedule.at("row_block"));
    rowEnd = kb.min(kb.add(rowBegin, schedule.at("row_block")), rows);
  }
  Value global = view.global ? kb.loadScalar(view.global, {kb.index(0)}) : Value();
  emitProduct(kb, {view, kb.parameter(1), rowBegin, rowEnd, panel, {}, schedule},
              [&](Value acc, Value row) {
                auto type = cast<tile::TileType>(acc.getType());
                Value col = kb.mul(panel, panelOutputs);
                Values inputs = {acc};
                if (added)
                  inputs.push_back(kb.load(added, {row, col}, {type.getRows(), type.getCols()},
                                           type.getRows(), type.getCols()));
                Value out = kb.map(inputs, type.getRows(), type.getCols(), [&](ValueRange args) {
                  Value value = global ? kb.mulf(args[0], global) : args[0];
                  return added ? kb.addf(args[1], value) : value;
                });
                storeColumns(kb, out, y, row, col, weight.outputs, rowEnd);
              });
  return kb.finish();
}

LogicalResult emitProject(StepLowering &step, Value x, FlatSymbolRefAttr symbol, Value residual,
                          Value y, bool logitRows) {
  m3::WeightOp weightOp = step.weightOp(symbol.getValue());
  FailureOr<PackedWeight> weight = step.pack(symbol.getValue(), weightOp, false);
  if (failed(weight))
    return failure();
  Schedule schedule = fitSchedule(
      step.schedule("project", {{"n", weight->outputs}, {"k", weight->k}}), *weight, 1, step.rows);
  std::string name = formatv("project_{0}{1}{2}{3}", spell(*weight), residual ? "_residual" : "",
                             logitRows ? "_logits" : "", spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    return buildProject(step, name, *weight, schedule, bool(residual), logitRows ? 2 : 0);
  });
  SmallVector<LaunchArgument> arguments = {
      {step.batch(planir::BatchArray::Counts), planir::Access::Read}, {x, planir::Access::Read}};
  addWeightArguments(step, *weight, arguments);
  if (residual)
    arguments.push_back({residual, planir::Access::Read});
  arguments.push_back({y, planir::Access::Write});
  step.launch(kernel, arguments, productGrid(schedule, weight->panels, step.rows),
              symbol.getValue());
  return success();
}

LogicalResult lowerProject(Operation *op, StepLowering &step) {
  auto project = cast<m3::ProjectOp>(op);
  bool logitRows = project.getX().getDefiningOp<m3::GatherRowsOp>() != nullptr;
  Value x = step.bufferOf(project.getX());
  Value y = step.makeBuffer(project.getResult(), project.getWeight());
  return emitProject(step, x, project.getWeightAttr(), {}, y, logitRows);
}

/// m3.fused "residual_project"(h, x): h + x Wᵀ.
LogicalResult lowerResidualProject(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  auto project = *fused.getBody().front().getOps<m3::ProjectOp>().begin();
  auto sum = *fused.getBody().front().getOps<arith::AddFOp>().begin();
  Value added = sum.getLhs() == project.getResult() ? sum.getRhs() : sum.getLhs();
  Value x = step.bufferOf(outerValue(fused, project.getX()));
  Value residual = step.bufferOf(outerValue(fused, added));
  Value y = step.makeBuffer(fused.getOutputs()[0], project.getWeight());
  return emitProject(step, x, project.getWeightAttr(), residual, y, false);
}

} // namespace m3c::kernel
