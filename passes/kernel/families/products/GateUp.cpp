// Family "gate_up": z = swiglu(x Wgᵀ, x Wuᵀ), both products in one pass over x.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/products/Project.h"
#include "passes/kernel/products/SharedProduct.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

/// Parameters: counts, x [rows,K], weight (gate and up panels in turn)…, z [rows,I].
static tile::KernelOp buildGateUp(StepLowering &step, StringRef name, const PackedWeight &weight,
                                  const Schedule &schedule, double alpha, double limit, Type x,
                                  Type activation) {
  MLIRContext *context = step.module.getContext();
  int64_t outputs = weight.outputs / 2;
  SmallVector<Type> types = {countsType(context), multipliedType(context, weight, schedule, x)};
  llvm::append_range(types, weightParameterTypes(context, weight));
  types.push_back(rowsType(context, outputs, activation));
  KernelBuilder kb(step.module, name, "gate_up", schedule, types);
  unsigned next = 2;
  WeightView view = bindWeight(kb, weight, next);
  Value z = kb.parameter(next);

  Value rows = kb.loadIndex(kb.parameter(0), {kb.index(0)});
  Value panel = kb.mul(kb.blockId(tile::Axis::X), schedule.at("panels"));
  auto [rowBegin, rowEnd] = RowBlock(kb, schedule, rows);
  Value gateScale, upScale;
  if (view.global) {
    gateScale = kb.loadScalar(view.global, {kb.index(0)});
    upScale = kb.loadScalar(view.global, {kb.index(1)});
  }
  Product product{view, kb.parameter(1), rowBegin, rowEnd, panel, {}, schedule};
  product.pairs = true;
  emitProduct(kb, product, [&, rowEnd = rowEnd](Value acc, Value row) {
    emitPairedSwiglu(kb, acc, sharesRows(schedule), gateScale, upScale, alpha, limit,
                     [&](Value out, int64_t output) {
                       Value col = kb.add(kb.mul(kb.div(panel, 2), panelOutputs), output);
                       storeColumns(kb, out, z, row, col, outputs, rowEnd);
                     });
  });
  return kb.finish();
}

LogicalResult emitGateUp(StepLowering &step, RowBuffer x, StringRef gate, StringRef up,
                         double alpha, double limit, StringRef name, RowBuffer z) {
  m3::WeightOp sources[] = {step.weightOp(gate), step.weightOp(up)};
  Schedule problem = productProblem(sources, x.element, z.element.getIntOrFloatBitWidth());
  problem[sharedRowsForm] = 1;
  Schedule choice = step.schedule("gate_up", problem);
  FailureOr<PackedWeight> weight =
      step.pack(name, sources, /*interleave=*/true, usesFragments(choice));
  if (failed(weight))
    return failure();
  Schedule schedule = fitSchedule(choice, *weight, 2, step.rows);
  noteOneTile(schedule, step.rows);
  std::string kernelName = formatv("gate_up_{0}{1}{2}", spell(*weight),
                                   spellElements({x.element, z.element}), spell(schedule));
  tile::KernelOp kernel = step.kernel(kernelName, [&] {
    return buildGateUp(step, kernelName, *weight, schedule, alpha, limit, x.element, z.element);
  });
  SmallVector<LaunchArgument> arguments = {
      {step.batch(planir::BatchArray::Counts), planir::Access::Read},
      {multipliedRows(step, x, *weight, schedule, 0, name), planir::Access::Read}};
  addWeightArguments(step, *weight, arguments);
  arguments.push_back({z.buffer, planir::Access::Write});
  step.launch(kernel, arguments, productGrid(schedule, weight->panels, step.rows), name);
  return success();
}

/// m3.fused "gate_up"(x): swiglu of two projections of x.
LogicalResult lowerGateUp(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  auto act = *fused.getBody().front().getOps<m3::SwigluOp>().begin();
  auto gate = act.getGate().getDefiningOp<m3::ProjectOp>();
  auto up = act.getUp().getDefiningOp<m3::ProjectOp>();
  for (m3::ProjectOp product : {gate, up})
    if (!storedElement(product.getResult()).isF32())
      return op->emitError("the kernel keeps gate and up products in f32, the group rounds them");
  std::string name = formatv("layers.{0}.gate_up", layerOf(gate.getWeight()));
  RowBuffer x = step.rowsOf(outerValue(fused, gate.getX()));
  RowBuffer z = step.makeRows(fused.getOutputs()[0], name);
  return emitGateUp(step, x, gate.getWeight(), up.getWeight(), act.getAlpha().convertToDouble(),
                    act.getLimit().convertToDouble(), name, z);
}

/// gate_up, then the down projection.
LogicalResult lowerSharedExpert(Operation *op, StepLowering &step) {
  auto shared = cast<m3::SharedExpertOp>(op);
  std::string name = formatv("layers.{0}.shared.gate_up", layerOf(shared.getGate()));
  int64_t width = step.weightOp(shared.getGate()).weightType().rows();
  RowBuffer z = step.scratchRows("shared_act", width, storedElement(shared.getX()));
  if (failed(emitGateUp(step, step.rowsOf(shared.getX()), shared.getGate(), shared.getUp(),
                        shared.getAlpha().convertToDouble(), shared.getLimit().convertToDouble(),
                        name, z)))
    return failure();
  return emitProject(step, z, shared.getDownAttr(), {},
                     step.makeRows(shared.getResult(), shared.getDown()), false);
}

} // namespace m3c::kernel
