// Family "experts": the chosen experts of every row with the shared expert.
//
// Three launches, two for few rows, after the router has listed which rows each expert has: gather
// (rows in the order of their experts, many rows only), up (gate and up products with SwiGLU), down
// (down product, weighted and added to the residual in the order of the expert ids, the shared
// expert last). A schedule with `apart` gives each expert's down product to a work item of its own;
// else one adds all experts of its columns.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/ExpertKernels.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {
namespace {

/// A product of the layer: where its weights come from, and how they are packed.
struct MoeProduct {
  StringRef family;
  SmallVector<m3::WeightOp> sources;
  Type element; ///< of the rows that it multiplies
  PackedWeight packed = {};

  int64_t unit() const { return int64_t(sources.size()); } ///< gate and up panels stay together

  LogicalResult pack(StepLowering &step, StringRef name) {
    Schedule problem = productProblem(sources, element);
    problem["matrices"] = 1; // of no account here
    bool fragments = usesFragments(step.schedule(family, problem));
    auto result = step.pack(name, sources, sources.size() > 1, fragments);
    if (failed(result))
      return failure();
    packed = *result;
    return success();
  }

  /// The fitted schedule; `singleRow` picks the one for rows that do not lie side by side.
  Schedule schedule(StepLowering &step, bool singleRow) const {
    Schedule problem = productProblem(sources, element);
    problem["matrices"] = packed.matrices;
    if (singleRow)
      problem["rows"] = 1;
    return fitSchedule(step.schedule(family, problem), packed, unit(), step.rows);
  }
};

/// Buffers of the operands; `residual` is null where the sum starts from zero.
struct MoeOperands {
  Value x, groups, weights;
  RowBuffer residual;
};

LogicalResult emitExperts(StepLowering &step, m3::ExpertsOp experts, m3::SharedExpertOp shared,
                          const MoeOperands &operands, Value result) {
  int64_t layer = layerOf(experts.getGate());
  auto weightName = [&](StringRef name) { return formatv("layers.{0}.{1}", layer, name).str(); };
  Type element = storedElement(experts.getX());
  auto source = [&](StringRef symbol) { return step.weightOp(symbol); };
  MoeProduct up{"experts_up", {source(experts.getGate()), source(experts.getUp())}, element};
  MoeProduct down{"experts_down", {source(experts.getDown())}, element};
  if (failed(up.pack(step, weightName("experts.gate_up"))) ||
      failed(down.pack(step, weightName("experts.down"))))
    return failure();
  MoeShape moe{up.packed.matrices,
               widthOf(experts.getIds()),
               widthOf(experts.getX()),
               up.packed,
               down.packed,
               {},
               {},
               experts.getAlpha().convertToDouble(),
               experts.getLimit().convertToDouble(),
               element,
               storedElement(result),
               operands.residual.element};
  if (moe.hidden % panelOutputs)
    return experts.emitError("the hidden size ")
           << moe.hidden << " is no multiple of " << panelOutputs;
  MoeProduct sharedUp{"experts_up", {}, element}, sharedDown{"experts_down", {}, element};
  if (shared) {
    sharedUp.sources = {source(shared.getGate()), source(shared.getUp())};
    sharedDown.sources = {source(shared.getDown())};
    if (failed(sharedUp.pack(step, weightName("shared.gate_up"))) ||
        failed(sharedDown.pack(step, weightName("shared.down"))))
      return failure();
    moe.sharedUp = sharedUp.packed;
    moe.sharedDown = sharedDown.packed;
  }

  if (!operands.groups)
    return experts.emitError("its ids are not those of m3.route");

  Value counts = step.batch(planir::BatchArray::Counts);
  auto [x, groups, weights, residual] = operands;
  auto read = [](Value value) { return LaunchArgument{value, planir::Access::Read}; };
  auto write = [](Value value) { return LaunchArgument{value, planir::Access::Write}; };
  auto launchName = [&](StringRef name) { return formatv("layers.{0}.{1}", layer, name).str(); };

  Schedule routedUp = up.schedule(step, false);
  // Matrix instructions take listed rows; other products want theirs side by side, or one by one.
  bool gathered = routedUp.count("row_block") && !usesFragments(routedUp);
  bool oneByOne = !gathered && !usesFragments(routedUp);
  if (oneByOne)
    routedUp = up.schedule(step, true);
  Value rowsOfExperts = x;
  if (gathered) {
    rowsOfExperts = step.scratchRows("expert_rows", moe.hidden, moe.element, moe.topK).buffer;
    Schedule gather = rowSchedule(step, moe.hidden, moe.element);
    std::string name = formatv("expert_gather_{0}_{1}_top{2}{3}{4}", moe.hidden, moe.experts,
                               moe.topK, spellElements(moe.element), spell(gather));
    step.launch(step.kernel(name, [&] { return buildExpertGather(step, name, moe, gather); }),
                {read(counts), read(groups), read(x), write(rowsOfExperts)},
                {{step.rows * moe.topK, 0}}, launchName("expert_gather"));
  }

  Schedule sharedUpSchedule, sharedDownSchedule;
  if (moe.sharedUp) {
    sharedUpSchedule = sharedUp.schedule(step, false);
    sharedDownSchedule = sharedDown.schedule(step, false);
  }
  Value z = step.scratchRows("expert_act", moe.width(), moe.element, moe.topK).buffer;
  Value zs;
  if (moe.sharedUp)
    zs = step.scratchRows("shared_act", moe.sharedWidth(), moe.element).buffer;
  int64_t items = std::min(step.rows * moe.topK, moe.experts);
  std::string sharedSpell =
      moe.sharedUp ? "_shared_" + spell(*moe.sharedUp) + spell(sharedUpSchedule) : std::string();
  std::string upName = formatv("experts_up_{0}{1}{2}_top{3}_items{4}{5}{6}", spell(moe.up),
                               spell(routedUp), gathered ? "_gathered" : "", moe.topK, items,
                               sharedSpell, spellElements(moe.element));
  SmallVector<LaunchArgument> arguments = {read(counts), read(groups), read(rowsOfExperts)};
  addWeightArguments(step, moe.up, arguments);
  arguments.push_back(write(z));
  int64_t parts = moe.up.panels / routedUp.at("panels");
  if (moe.sharedUp) {
    arguments.push_back(read(x));
    addWeightArguments(step, *moe.sharedUp, arguments);
    arguments.push_back(write(zs));
    parts = std::max(parts, moe.sharedUp->panels / sharedUpSchedule.at("panels"));
  }
  step.launch(
      step.kernel(
          upName,
          [&] { return buildExpertsUp(step, upName, moe, routedUp, sharedUpSchedule, gathered); }),
      arguments, {{parts, 0}, {items + (moe.sharedUp ? 1 : 0), 0}}, launchName("experts_up"));

  Schedule routedDown = down.schedule(step, oneByOne);
  // One work item adds both: their panels must be the same.
  if (moe.sharedDown) {
    int64_t panels = std::min(routedDown.at("panels"), sharedDownSchedule.at("panels"));
    setPanels(routedDown, panels);
    setPanels(sharedDownSchedule, panels);
    sharedSpell = "_shared_" + spell(*moe.sharedDown) + spell(sharedDownSchedule);
  }
  bool apart = isOn(routedDown, "apart");
  SmallVector<Type> elements = {moe.element, moe.result};
  if (residual)
    elements.push_back(moe.residual);
  std::string downName =
      formatv("experts_down_{0}{1}_top{2}{3}{4}{5}", spell(moe.down), spell(routedDown), moe.topK,
              residual ? "_residual" : "", sharedSpell, spellElements(elements));
  arguments = {read(counts), read(groups), read(weights), read(z)};
  if (residual)
    arguments.push_back(read(residual.buffer));
  addWeightArguments(step, moe.down, arguments);
  arguments.push_back(write(step.makeBuffer(result, "hidden")));
  SmallVector<planir::GridDim> grid = {{moe.down.panels / routedDown.at("panels"), 0}};
  if (apart) {
    FailureOr<Value> counters = step.counters(grid[0].count);
    if (failed(counters))
      return failure();
    arguments.push_back(
        write(step.scratchRows("expert_out", moe.hidden, moe.element, moe.topK).buffer));
    arguments.push_back({*counters, planir::Access::ReadWrite});
    grid.push_back({items + (moe.sharedDown ? 1 : 0), 0});
  }
  if (moe.sharedDown) {
    arguments.push_back(read(zs));
    addWeightArguments(step, *moe.sharedDown, arguments);
  }
  if (apart && moe.sharedDown)
    arguments.push_back(write(step.scratchRows("shared_out", moe.hidden, moe.element).buffer));
  if (!apart && !moe.result.isF32()) {
    Type f32 = Float32Type::get(step.module.getContext());
    arguments.push_back(write(step.scratchRows("expert_sums", moe.hidden, f32).buffer));
  }
  auto build = apart ? buildExpertsDownApart : buildExpertsDown;
  tile::KernelOp kernel = step.kernel(
      downName, [&] { return build(step, downName, moe, routedDown, sharedDownSchedule); });
  step.launch(kernel, arguments, grid, launchName("experts_down"));
  return success();
}

} // namespace

/// m3.fused "experts_shared"(n, ids, weights, h): h + routed + shared, the sum in F32.
LogicalResult lowerExpertsShared(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  Block &body = fused.getBody().front();
  auto experts = *body.getOps<m3::ExpertsOp>().begin();
  m3::SharedExpertOp shared;
  for (auto candidate : body.getOps<m3::SharedExpertOp>())
    shared = candidate;
  Value residual; // the operand of an addition that is neither product
  for (auto add : body.getOps<arith::AddFOp>()) {
    if (!storedElement(add.getResult()).isF32())
      return op->emitError(
          "the kernel adds experts in f32, the group rounds between its additions");
    for (Value operand : add->getOperands()) {
      auto widen = operand.getDefiningOp<arith::ExtFOp>();
      if (auto argument = dyn_cast<BlockArgument>(widen ? widen.getIn() : operand))
        residual = outerValue(fused, argument);
    }
  }
  if (!residual)
    return op->emitError("the group adds no residual to the experts");
  auto outer = [&](Value inner) { return step.bufferOf(outerValue(fused, inner)); };
  return emitExperts(step, experts, shared,
                     {outer(experts.getX()), step.groupsOf(outer(experts.getIds())),
                      outer(experts.getWeights()), step.rowsOf(residual)},
                     fused.getOutputs()[0]);
}

LogicalResult lowerExperts(Operation *op, StepLowering &step) {
  auto experts = cast<m3::ExpertsOp>(op);
  return emitExperts(step, experts, {},
                     {step.bufferOf(experts.getX()),
                      step.groupsOf(step.bufferOf(experts.getIds())),
                      step.bufferOf(experts.getWeights()),
                      {}},
                     experts.getResult());
}

} // namespace m3c::kernel
