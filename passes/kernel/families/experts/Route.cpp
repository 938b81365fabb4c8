// Family "norm_route": norm, router logits in FP32, sigmoid, choice of experts and their weights,
// and the list of the rows of each expert.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/Groups.h"
#include "passes/kernel/families/products/Project.h"
#include "passes/kernel/products/Product.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

namespace {

struct RouteShape {
  int64_t experts, topK;
  double scale;
  bool bias;
  bool lists; ///< the kernel lists the rows of each expert as well
};

/// The choice of one row's experts, in registers.
class RouteRow {
public:
  RouteRow(KernelBuilder &kb, const RouteShape &shape)
      : kb(kb), shape(shape), floats(kb.tile(1, shape.experts)),
        integers(kb.tile(1, shape.experts, kb.i32Type())), number(kb.iota(shape.experts)) {}

  /// Ids ascending, and their weights: the unbiased scores over their sum.
  void emit(Value logits, Value bias, Value row, Value ids, Value weights) {
    Value x = kb.load(logits, {row, kb.index(0)}, {1, shape.experts}, 1, shape.experts);
    Value scores = kb.map(x, floats, [&](ValueRange args) {
      Value decay = kb.expf(kb.mulf(args[0], kb.f32(-1.0)));
      return kb.divf(kb.f32(1.0), kb.addf(decay, kb.f32(1.0)));
    });
    Value keys = keysOf(scores, bias);
    Values best, bestScores;
    for (int64_t slot = 0; slot < shape.topK; ++slot) {
      best.push_back(takeBest(keys));
      bestScores.push_back(scoreOf(scores, best.back()));
    }
    store(best, bestScores, kb.mul(row, shape.topK), ids, weights);
  }

private:
  /// Biased scores as integers in the same order. A NaN score counts as −∞, so any logits give
  /// distinct ids.
  Value keysOf(Value scores, Value bias) {
    auto &b = kb.builder();
    Values inputs = {scores};
    if (bias)
      inputs.push_back(kb.load(bias, {kb.index(0)}, {shape.experts}, 1, shape.experts));
    return kb.map(inputs, integers, [&](ValueRange args) {
      Value sum = bias ? kb.addf(args[0], args[1]) : args[0];
      Value lowest = kb.f32(-std::numeric_limits<double>::infinity());
      // Adding zero makes −0 and 0 equal.
      Value ordered = kb.addf(kb.selectf(kb.isNan(sum), lowest, sum), kb.f32(0.0));
      Value bits = arith::BitcastOp::create(b, kb.i32Type(), ordered);
      Value flip =
          arith::AndIOp::create(b, arith::ShRSIOp::create(b, bits, kb.i32(31)), kb.i32(INT32_MAX));
      return Value(arith::XOrIOp::create(b, bits, flip));
    });
  }

  /// The best expert that is not taken, as i32: highest score, then lowest id. It is taken then.
  Value takeBest(Value &keys) {
    Value top = kb.extract(kb.reduce(tile::ReduceKind::Max, keys), 0, 0);
    Value candidates = kb.map({keys, number}, integers, [&](ValueRange args) {
      return kb.selectf(kb.equal(args[0], top), kb.sub(kb.i32(0), args[1]), kb.i32(INT32_MIN));
    });
    Value id = kb.sub(kb.i32(0), kb.extract(kb.reduce(tile::ReduceKind::Max, candidates), 0, 0));
    keys = kb.map({keys, number}, integers, [&](ValueRange args) {
      return kb.selectf(kb.equal(args[1], id), kb.i32(INT32_MIN), args[0]);
    });
    return id;
  }

  /// A score is not negative, or NaN; `reduce` takes the larger, and NaN from where it stands
  /// alone.
  Value scoreOf(Value scores, Value id) {
    Value one = kb.map({scores, number}, integers, [&](ValueRange args) {
      Value bits = arith::BitcastOp::create(kb.builder(), kb.i32Type(), args[0]);
      return kb.selectf(kb.equal(args[1], id), bits, kb.i32(INT32_MIN));
    });
    Value bits = kb.extract(kb.reduce(tile::ReduceKind::Max, one), 0, 0);
    return arith::BitcastOp::create(kb.builder(), kb.f32Type(), bits);
  }

  void store(const Values &best, const Values &bestScores, Value first, Value ids, Value weights) {
    Values ranks, sortedIds, sorted;
    for (int64_t i = 0; i < shape.topK; ++i)
      ranks.push_back(rank(best, i));
    for (int64_t place = 0; place < shape.topK; ++place) {
      Value id = kb.i32(0), score = kb.f32(0);
      for (int64_t i = 0; i < shape.topK; ++i) {
        Value isHere = kb.equal(ranks[size_t(i)], kb.i32(place));
        id = kb.selectf(isHere, best[size_t(i)], id);
        score = kb.selectf(isHere, bestScores[size_t(i)], score);
      }
      sortedIds.push_back(id);
      sorted.push_back(score);
    }
    Value sum = kb.f32(0);
    for (Value score : sorted)
      sum = kb.addf(sum, score);
    for (int64_t place = 0; place < shape.topK; ++place) {
      Value at = kb.add(first, place);
      kb.storeScalar(kb.toIndex(sortedIds[size_t(place)]), ids, {at});
      Value share = kb.divf(sorted[size_t(place)], sum);
      kb.storeScalar(kb.mulf(share, kb.f32(shape.scale)), weights, {at});
    }
  }

  /// How many of the chosen ids are smaller than that of choice i.
  Value rank(const Values &best, int64_t i) {
    Value count = kb.i32(0);
    for (int64_t j = 0; j < shape.topK; ++j)
      if (j != i)
        count = kb.add(count,
                       kb.selectf(kb.less(best[size_t(j)], best[size_t(i)]), kb.i32(1), kb.i32(0)));
    return count;
  }

  KernelBuilder &kb;
  const RouteShape &shape;
  tile::TileType floats, integers;
  Value number;
};

} // namespace

namespace {

/// What the choice reads beside logits, and what it writes: (bias [E],) ids [rows·k], weights
/// [rows·k], and where it lists, the list of `Groups` and counters.
struct RouteOperands {
  static void addTypes(MLIRContext *context, const RouteShape &shape, SmallVector<Type> &types) {
    if (shape.bias)
      types.push_back(vectorType(context, shape.experts));
    types.push_back(listType(context));
    types.push_back(tile::ViewType::get(context, {ShapedType::kDynamic}, Float32Type::get(context),
                                        tile::Space::Global));
    if (shape.lists)
      types.append({listType(context), listType(context)});
  }

  RouteOperands(KernelBuilder &kb, const RouteShape &shape, unsigned next) {
    if (shape.bias)
      bias = kb.parameter(next++);
    ids = kb.parameter(next++);
    weights = kb.parameter(next++);
    if (!shape.lists)
      return;
    list = kb.parameter(next++);
    counters = kb.parameter(next);
  }

  void listGroups(KernelBuilder &kb, const RouteShape &shape, Value rows) {
    Groups(kb, list, shape.experts).emit(ids, kb.mul(rows, shape.topK));
  }

  Value bias, ids, weights, list, counters;
};

} // namespace

/// Parameters: counts, logits [rows,E], RouteOperands. Each warp has a row; the last work item
/// lists the rows of each expert, where the kernel does.
static tile::KernelOp buildRoute(StepLowering &step, StringRef name, const RouteShape &shape,
                                 const Schedule &schedule) {
  MLIRContext *context = step.module.getContext();
  SmallVector<Type> types = {countsType(context), rowsType(context, shape.experts)};
  RouteOperands::addTypes(context, shape, types);
  KernelBuilder kb(step.module, name, "route", schedule, types);
  RouteOperands operands(kb, shape, 2);
  Value rows = kb.loadIndex(kb.parameter(0), {kb.index(0)});
  Value first = kb.mul(kb.blockId(tile::Axis::X), kb.warps());
  kb.when(kb.less(first, rows), [&] {
    Value row = kb.add(first, kb.warpId());
    kb.when(kb.less(row, rows), [&] {
      RouteRow(kb, shape).emit(kb.parameter(1), operands.bias, row, operands.ids, operands.weights);
    });
    if (!shape.lists)
      return;
    Value items = kb.ceilDiv(rows, kb.warps());
    kb.when(kb.arriveLast(operands.counters, kb.index(0), items),
            [&] { operands.listGroups(kb, shape, rows); });
  });
  return kb.finish();
}

/// Parameters: counts, x [rows,H], router…, logits [rows,E], RouteOperands. The last work item of
/// the product chooses for all rows.
static tile::KernelOp buildRouterAndRoute(StepLowering &step, StringRef name,
                                          const RouteShape &shape, const PackedWeight &router,
                                          const Schedule &schedule, Type x) {
  MLIRContext *context = step.module.getContext();
  SmallVector<Type> types = {countsType(context), rowsType(context, router.k, x)};
  llvm::append_range(types, weightParameterTypes(context, router));
  types.push_back(rowsType(context, shape.experts));
  RouteOperands::addTypes(context, shape, types);
  KernelBuilder kb(step.module, name, "route", schedule, types);
  unsigned next = 2;
  WeightView view = bindWeight(kb, router, next);
  Value logits = kb.parameter(next++);
  RouteOperands operands(kb, shape, next);
  Value rows = kb.loadIndex(kb.parameter(0), {kb.index(0)});
  Value panel = kb.mul(kb.blockId(tile::Axis::X), schedule.at("panels"));
  emitProduct(kb, {view, kb.parameter(1), kb.index(0), rows, panel, {}, schedule},
              [&](Value acc, Value row) {
                storeColumns(kb, acc, logits, row, kb.mul(panel, panelOutputs), shape.experts,
                             rows);
              });
  Value items = kb.index(router.panels / schedule.at("panels") * kb.cluster());
  kb.when(kb.arriveLast(operands.counters, kb.index(0), items), [&] {
    kb.eachByWarp(kb.index(0), rows, [&](Value row) {
      RouteRow(kb, shape).emit(logits, operands.bias, row, operands.ids, operands.weights);
    });
    kb.barrier();
    operands.listGroups(kb, shape, rows);
  });
  return kb.finish();
}

namespace {

/// Router logits of `x` and the choice by them, into new buffers for `ids` and `weights`.
class EmitRoute {
public:
  EmitRoute(StepLowering &step, m3::RouteOp route, RowBuffer x)
      : step(step), route(route), x(x), router(step.weightOp(route.getRouter())),
        shape{router.weightType().rows(), int64_t(route.getTopK()),
              route.getScale().convertToDouble(), route.getBias().has_value(),
              !listsExpertsApart(step, router.weightType().rows(), int64_t(route.getTopK()))},
        schedule(step.schedule("route", {{"experts", shape.experts}})),
        logits(step.scratchRows("router_logits", shape.experts,
                                Float32Type::get(step.module.getContext()))) {
    schedule.emplace("warps", 1);
    schedule.erase("list_apart");
  }

  LogicalResult emit(Value ids, Value weights) {
    Schedule product = step.schedule("project", productProblem(router, x.element));
    bool together = isOn(schedule, "with_router") && shape.lists && usesFragments(product);
    schedule.erase("with_router");
    if (!together && failed(emitProject(step, x, route.getRouterAttr(), {}, logits, false)))
      return failure();
    Value chosen = step.makeBuffer(ids, "expert_ids");
    if (failed(addOperands(chosen, weights)))
      return failure();
    if (failed(together ? launchTogether(product) : launchAlone()))
      return failure();
    step.tap(planir::TapKind::Experts, layer(), shape.topK * 4, chosen);
    return success();
  }

private:
  int64_t layer() { return layerOf(route.getRouter()); }
  std::string spelled() {
    return formatv("{0}_top{1}_{2}{3}{4}", shape.experts, shape.topK, int64_t(shape.scale * 1000),
                   shape.bias ? "_bias" : "", shape.lists ? "" : "_unlisted");
  }

  /// The arguments of RouteOperands.
  LogicalResult addOperands(Value chosen, Value weights) {
    if (shape.bias)
      operands.push_back(
          {step.weight(step.vector(step.weightOp(*route.getBias()))), planir::Access::Read});
    Value groups =
        step.scratch("expert_groups", shape.topK * 4, 0, Groups::fixedBytes(shape.experts));
    step.bindGroups(chosen, groups);
    operands.push_back({chosen, planir::Access::Write});
    operands.push_back({step.makeBuffer(weights, "expert_weights"), planir::Access::Write});
    if (!shape.lists)
      return success();
    FailureOr<Value> counters = step.counters(1);
    if (failed(counters))
      return failure();
    operands.push_back({groups, planir::Access::Write});
    operands.push_back({*counters, planir::Access::ReadWrite});
    return success();
  }

  LogicalResult launchAlone() {
    std::string name = formatv("route_{0}{1}", spelled(), spell(schedule));
    tile::KernelOp kernel =
        step.kernel(name, [&] { return buildRoute(step, name, shape, schedule); });
    SmallVector<LaunchArgument> arguments = {
        {step.batch(planir::BatchArray::Counts), planir::Access::Read},
        {logits.buffer, planir::Access::Read}};
    llvm::append_range(arguments, operands);
    int64_t items = llvm::divideCeil(step.rows, schedule.at("warps"));
    step.launch(kernel, arguments, {{items, 0}}, formatv("layers.{0}.route", layer()).str());
    return success();
  }

  LogicalResult launchTogether(const Schedule &choice) {
    FailureOr<PackedWeight> weight = step.pack(route.getRouter(), router, false, true);
    if (failed(weight))
      return failure();
    Schedule product = fitSchedule(choice, *weight, 1, step.rows);
    noteOneTile(product, step.rows);
    std::string name = formatv("router_and_route_{0}_{1}{2}{3}", spell(*weight), spelled(),
                               spellElements(x.element), spell(product));
    tile::KernelOp kernel = step.kernel(
        name, [&] { return buildRouterAndRoute(step, name, shape, *weight, product, x.element); });
    SmallVector<LaunchArgument> arguments = {
        {step.batch(planir::BatchArray::Counts), planir::Access::Read},
        {x.buffer, planir::Access::Read}};
    addWeightArguments(step, *weight, arguments);
    arguments.push_back({logits.buffer, planir::Access::Write});
    llvm::append_range(arguments, operands);
    step.launch(kernel, arguments, {{weight->panels / product.at("panels"), 0}},
                formatv("layers.{0}.route", layer()).str());
    return success();
  }

  StepLowering &step;
  m3::RouteOp route;
  RowBuffer x;
  m3::WeightOp router;
  RouteShape shape;
  Schedule schedule;
  RowBuffer logits;
  SmallVector<LaunchArgument> operands;
};

} // namespace

LogicalResult lowerRoute(Operation *op, StepLowering &step) {
  auto route = cast<m3::RouteOp>(op);
  return EmitRoute(step, route, step.rowsOf(route.getX())).emit(route.getIds(), route.getWeights());
}

/// m3.fused "norm_route"(h): the normed rows, and for them the chosen ids and weights.
LogicalResult lowerNormRoute(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  Block &body = fused.getBody().front();
  auto norm = *body.getOps<m3::NormOp>().begin();
  auto route = *body.getOps<m3::RouteOp>().begin();
  auto yield = cast<m3::YieldOp>(body.getTerminator());
  auto outputOf = [&](Value inner) -> Value {
    for (auto [i, value] : llvm::enumerate(yield.getResults()))
      if (value == inner)
        return fused.getOutputs()[i];
    return {};
  };
  Value normed = outputOf(norm.getResult());
  if (!normed)
    return op->emitError("the normed rows are no result of the group, the experts need them");
  emitNorm(step, outerValue(fused, norm.getX()), norm.getWeight(), norm.getEps().convertToDouble(),
           normed);
  return EmitRoute(step, route, step.rowsOf(normed))
      .emit(outputOf(route.getIds()), outputOf(route.getWeights()));
}

} // namespace m3c::kernel
