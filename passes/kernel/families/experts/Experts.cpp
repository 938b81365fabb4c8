// Family "experts": the chosen experts of every row with the shared expert.
//
// Three launches, two for few rows, after the router has listed which rows each expert has: gather
// (rows in the order of their experts, many rows only), up (gate and up products with SwiGLU), down
// (down product, weighted and added to the residual in the order of the expert ids, the shared
// expert last). A schedule with `apart` gives each expert's down product to a work item of its own;
// else one adds all experts of its columns. Products of many rows are those of PackedExperts.h,
// each of the two for itself.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/PackedExperts.h"
#include "passes/kernel/families/products/Project.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {
namespace {

/// A product of the layer: where its weights come from, and how they are packed.
struct MoeProduct {
  StringRef family = {};
  SmallVector<m3::WeightOp> sources = {};
  Type element = {}; ///< of the rows that it multiplies
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
    return fitted(step, singleRow ? Schedule{{"rows", 1}} : Schedule());
  }

  /// That of an expert's product whose rows may be packed.
  Schedule routedSchedule(StepLowering &step, int64_t topK) const {
    return fitted(
        step, {{"top_k", topK}, {sharedRowsForm, listsExpertsApart(step, packed.matrices, topK)}});
  }

private:
  Schedule fitted(StepLowering &step, const Schedule &more) const {
    Schedule problem = productProblem(sources, element);
    problem["matrices"] = packed.matrices;
    problem.insert(more.begin(), more.end());
    return fitSchedule(step.schedule(family, problem), packed, unit(), step.rows);
  }
};

/// Buffers of the operands; `residual` is null where the sum starts from zero.
struct MoeOperands {
  Value x, ids, groups, weights;
  RowBuffer residual;
};

/// The launches of one layer's experts. The steps are called in the order in which they stand: each
/// reads what the ones before have set.
class ExpertsLowering {
public:
  ExpertsLowering(StepLowering &step, m3::ExpertsOp experts, m3::SharedExpertOp shared,
                  const MoeOperands &operands, Value result)
      : step(step), experts(experts), shared(shared), operands(operands), result(result),
        layer(layerOf(experts.getGate())) {}

  LogicalResult lower() {
    if (failed(packWeights()))
      return failure();
    if (moe.hidden % panelOutputs)
      return experts.emitError("the hidden size ")
             << moe.hidden << " is no multiple of " << panelOutputs;
    if (!operands.groups)
      return experts.emitError("its ids are not those of m3.route");
    counts = step.batch(planir::BatchArray::Counts);
    if (failed(chooseSchedules()))
      return failure();
    launchList();
    z = step.scratchRows("expert_act", moe.width(), moe.element, moe.topK).buffer;
    if (moe.sharedUp)
      zs = step.scratchRows("shared_act", moe.sharedWidth(), moe.element).buffer;
    if (failed(sharesRows(routedUp) ? launchPackedUp() : launchUp()))
      return failure();
    return sharesRows(routedDown) ? launchPackedDown() : launchDown();
  }

private:
  std::string labelOf(StringRef name) { return formatv("layers.{0}.{1}", layer, name).str(); }

  LogicalResult packWeights() {
    Type element = storedElement(experts.getX());
    auto source = [&](StringRef symbol) { return step.weightOp(symbol); };
    up = {"experts_up", {source(experts.getGate()), source(experts.getUp())}, element};
    down = {"experts_down", {source(experts.getDown())}, element};
    if (failed(up.pack(step, labelOf("experts.gate_up"))) ||
        failed(down.pack(step, labelOf("experts.down"))))
      return failure();
    moe = {up.packed.matrices,
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
    if (!shared)
      return success();
    sharedUp = {"experts_up", {source(shared.getGate()), source(shared.getUp())}, element};
    sharedDown = {"experts_down", {source(shared.getDown())}, element};
    if (failed(sharedUp.pack(step, labelOf("shared.gate_up"))) ||
        failed(sharedDown.pack(step, labelOf("shared.down"))))
      return failure();
    moe.sharedUp = sharedUp.packed;
    moe.sharedDown = sharedDown.packed;
    return success();
  }

  LogicalResult chooseSchedules() {
    routedUp = up.routedSchedule(step, moe.topK);
    // Matrix instructions take listed rows; other products want theirs side by side, or one by one.
    isGathered = routedUp.count("row_block") && !usesFragments(routedUp);
    bool isOneByOne = !isGathered && !usesFragments(routedUp);
    if (isOneByOne)
      routedUp = up.schedule(step, true);
    routedDown = isOneByOne ? down.schedule(step, true) : down.routedSchedule(step, moe.topK);
    if (sharesRows(routedUp) && sharesRows(routedDown) &&
        routedUp.at("rows") != routedDown.at("rows"))
      return experts.emitError("experts_up has tiles of ")
             << routedUp.at("rows") << " rows, experts_down of " << routedDown.at("rows")
             << "; they share a list of tiles, so give both the same";
    items = std::min(step.rows * moe.topK, moe.experts);
    if (!moe.sharedUp)
      return success();
    sharedUpSchedule = sharedUp.schedule(step, false);
    sharedDownSchedule = sharedDown.schedule(step, false);
    if (!sharesRows(routedDown)) { // one work item adds both: their panels must be the same
      int64_t panels = std::min(routedDown.at("panels"), sharedDownSchedule.at("panels"));
      setPanels(routedDown, panels);
      setPanels(sharedDownSchedule, panels);
    }
    return success();
  }

  /// The list of each expert's rows, and of their tiles, where the router has not made it.
  void launchList() {
    if (!listsExpertsApart(step, moe.experts, moe.topK))
      return;
    int64_t tileRows = 0;
    for (const Schedule &schedule : {routedUp, routedDown})
      if (sharesRows(schedule))
        tileRows = schedule.at("rows");
    owners = launchExpertList(step, operands.ids, operands.groups, moe.experts, moe.topK, tileRows,
                              labelOf("expert_list"));
  }

  /// The rows of each expert, side by side.
  Value launchGather() {
    Value rows = step.scratchRows("expert_rows", moe.hidden, moe.element, moe.topK).buffer;
    Schedule gather = rowSchedule(step, moe.hidden, moe.element);
    std::string name = formatv("expert_gather_{0}_{1}_top{2}{3}{4}", moe.hidden, moe.experts,
                               moe.topK, spellElements(moe.element), spell(gather));
    step.launch(step.kernel(name, [&] { return buildExpertGather(step, name, moe, gather); }),
                {read(counts), read(operands.groups), read(operands.x), write(rows)},
                {{step.rows * moe.topK, 0}}, labelOf("expert_gather"));
    return rows;
  }

  LogicalResult launchUp() {
    Value rows = isGathered ? launchGather() : operands.x;
    std::string name =
        formatv("experts_up_{0}{1}{2}_top{3}_items{4}{5}{6}", spell(moe.up), spell(routedUp),
                isGathered ? "_gathered" : "", moe.topK, items,
                spellShared(moe.sharedUp, sharedUpSchedule), spellElements(moe.element));
    SmallVector<LaunchArgument> arguments = {read(counts), read(operands.groups), read(rows)};
    addWeightArguments(step, moe.up, arguments);
    arguments.push_back(write(z));
    int64_t parts = moe.up.panels / routedUp.at("panels");
    if (moe.sharedUp) {
      arguments.push_back(read(operands.x));
      addWeightArguments(step, *moe.sharedUp, arguments);
      arguments.push_back(write(zs));
      parts = std::max(parts, moe.sharedUp->panels / sharedUpSchedule.at("panels"));
    }
    tile::KernelOp kernel = step.kernel(name, [&] {
      return buildExpertsUp(step, name, moe, routedUp, sharedUpSchedule, isGathered);
    });
    step.launch(kernel, arguments, {{parts, 0}, {items + (moe.sharedUp ? 1 : 0), 0}},
                labelOf("experts_up"));
    return success();
  }

  LogicalResult launchPackedUp() {
    if (shared &&
        failed(emitGateUp(step, {operands.x, moe.element}, shared.getGate(), shared.getUp(),
                          shared.getAlpha().convertToDouble(), shared.getLimit().convertToDouble(),
                          labelOf("shared.gate_up"), {zs, moe.element})))
      return failure();
    PackedExperts{step, moe, operands.groups, owners}.launchUp(operands.x, routedUp, z,
                                                               labelOf("experts_up"));
    return success();
  }

  LogicalResult launchDown() {
    const bool apart = isOn(routedDown, "apart");
    SmallVector<LaunchArgument> arguments = {read(counts), read(operands.groups),
                                             read(operands.weights), read(z)};
    if (operands.residual)
      arguments.push_back(read(operands.residual.buffer));
    addWeightArguments(step, moe.down, arguments);
    arguments.push_back(write(step.makeBuffer(result, "hidden")));
    SmallVector<planir::GridDim> grid = {{moe.down.panels / routedDown.at("panels"), 0}};
    if (apart) {
      FailureOr<Value> counters = step.counters(grid[0].count);
      if (failed(counters))
        return failure();
      arguments.push_back(write(outputs()));
      arguments.push_back({*counters, planir::Access::ReadWrite});
      grid.push_back({items + (moe.sharedDown ? 1 : 0), 0});
    }
    if (moe.sharedDown) {
      arguments.push_back(read(zs));
      addWeightArguments(step, *moe.sharedDown, arguments);
    }
    if (apart && moe.sharedDown)
      arguments.push_back(write(sharedOutputs()));
    if (!apart && !moe.result.isF32()) {
      Type f32 = Float32Type::get(step.module.getContext());
      arguments.push_back(write(step.scratchRows("expert_sums", moe.hidden, f32).buffer));
    }
    step.launch(downKernel(apart), arguments, grid, labelOf("experts_down"));
    return success();
  }

  LogicalResult launchPackedDown() {
    Value y = outputs(), ys;
    PackedExperts{step, moe, operands.groups, owners}.launchDown(z, routedDown, y,
                                                                 labelOf("experts_down"));
    if (shared) {
      ys = sharedOutputs();
      if (failed(emitProject(step, {zs, moe.element}, shared.getDownAttr(), {}, {ys, moe.element},
                             false)))
        return failure();
    }
    launchExpertSum(step, moe, operands.weights, y, operands.residual.buffer, ys,
                    step.makeBuffer(result, "hidden"), labelOf("experts_sum"));
    return success();
  }

  /// Of each entry, and of each row, before they are added.
  Value outputs() {
    return step.scratchRows("expert_out", moe.hidden, moe.element, moe.topK).buffer;
  }
  Value sharedOutputs() { return step.scratchRows("shared_out", moe.hidden, moe.element).buffer; }

  tile::KernelOp downKernel(bool apart) {
    SmallVector<Type> elements = {moe.element, moe.result};
    if (operands.residual)
      elements.push_back(moe.residual);
    std::string name =
        formatv("experts_down_{0}{1}_top{2}{3}{4}{5}", spell(moe.down), spell(routedDown), moe.topK,
                operands.residual ? "_residual" : "",
                spellShared(moe.sharedDown, sharedDownSchedule), spellElements(elements));
    auto build = apart ? buildExpertsDownApart : buildExpertsDown;
    return step.kernel(name,
                       [&] { return build(step, name, moe, routedDown, sharedDownSchedule); });
  }

  static std::string spellShared(const std::optional<PackedWeight> &weight,
                                 const Schedule &schedule) {
    return weight ? "_shared_" + spell(*weight) + spell(schedule) : std::string();
  }

  StepLowering &step;
  m3::ExpertsOp experts;
  m3::SharedExpertOp shared; ///< null where there is none
  const MoeOperands operands;
  const Value result;
  const int64_t layer;
  MoeShape moe;
  MoeProduct up, down, sharedUp, sharedDown;
  Schedule routedUp, routedDown, sharedUpSchedule, sharedDownSchedule;
  bool isGathered = false; ///< rows are laid side by side for the up products
  int64_t items = 0;       ///< experts that may have rows
  Value counts, z, zs;     ///< z: of routed experts, zs: of the shared one, after SwiGLU
  Value owners;            ///< of tiles of packed rows
};

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
  return ExpertsLowering(step, experts, shared,
                         {outer(experts.getX()), outer(experts.getIds()),
                          step.groupsOf(outer(experts.getIds())), outer(experts.getWeights()),
                          step.rowsOf(residual)},
                         fused.getOutputs()[0])
      .lower();
}

LogicalResult lowerExperts(Operation *op, StepLowering &step) {
  auto experts = cast<m3::ExpertsOp>(op);
  return ExpertsLowering(step, experts, {},
                         {step.bufferOf(experts.getX()),
                          step.bufferOf(experts.getIds()),
                          step.groupsOf(step.bufferOf(experts.getIds())),
                          step.bufferOf(experts.getWeights()),
                          {}},
                         experts.getResult())
      .lower();
}

} // namespace m3c::kernel
