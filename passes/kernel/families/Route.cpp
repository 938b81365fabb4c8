// Family "norm_route": norm, router logits in FP32, sigmoid, choice of experts and their weights.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/Project.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

namespace {
struct RouteShape {
  int64_t experts, topK;
  double scale;
  bool bias;
};
} // namespace

/// The best expert that is not taken: highest biased score, then lowest id. A NaN score counts as
/// −∞, so any logits give distinct ids.
static Value emitBest(KernelBuilder &kb, Value biased, Value taken, int64_t experts) {
  auto &b = kb.builder();
  Value none = kb.index(-1);
  Values best = kb.forLoop(
      kb.index(0), kb.index(experts), 1, {none, kb.f32(0)}, [&](Value e, ValueRange carried) {
        Value score = kb.loadScalar(biased, {e});
        Value free = kb.equal(kb.loadIndex(taken, {e}), kb.index(0));
        Value first = kb.less(carried[0], kb.index(0));
        Value higher = kb.lessf(carried[1], score);
        Value take = arith::AndIOp::create(b, free, arith::OrIOp::create(b, first, higher));
        return Values{arith::SelectOp::create(b, take, e, carried[0]),
                      arith::SelectOp::create(b, take, score, carried[1])};
      });
  return best[0];
}

/// Parameters: counts, logits [rows,E], (bias [E]), ids [rows,k], weights [rows,k].
static tile::KernelOp buildRoute(StepLowering &step, StringRef name, const RouteShape &shape) {
  MLIRContext *context = step.module.getContext();
  SmallVector<Type> types = {countsType(context), rowsType(context, shape.experts)};
  if (shape.bias)
    types.push_back(vectorType(context, shape.experts));
  types.push_back(rowsType(context, shape.topK, IntegerType::get(context, 32)));
  types.push_back(rowsType(context, shape.topK));
  KernelBuilder kb(step.module, name, "route", {}, types);
  unsigned next = 2;
  Value bias = shape.bias ? kb.parameter(next++) : Value();
  Value ids = kb.parameter(next++), weights = kb.parameter(next);

  Value row = kb.blockId(tile::Axis::X), zero = kb.index(0);
  kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {zero})), [&] {
    Value scores = kb.alloc({shape.experts}, kb.f32Type());
    Value biased = kb.alloc({shape.experts}, kb.f32Type());
    Value taken = kb.alloc({shape.experts}, kb.i32Type());
    eachChunk(kb, shape.experts, 16, [&](Value e, int64_t count) {
      Value logits = kb.load(kb.parameter(1), {row, e}, {1, count}, 1, count);
      Value s = kb.map(logits, 1, count, [&](ValueRange args) {
        Value decay = kb.expf(kb.mulf(args[0], kb.f32(-1.0)));
        return kb.divf(kb.f32(1.0), kb.addf(decay, kb.f32(1.0)));
      });
      kb.store(s, scores, {e}, {count});
      Values inputs = {s};
      if (bias)
        inputs.push_back(kb.load(bias, {e}, {count}, 1, count));
      Value ranked = kb.map(inputs, 1, count, [&](ValueRange args) {
        Value sum = bias ? kb.addf(args[0], args[1]) : args[0];
        Value ordered = arith::CmpFOp::create(kb.builder(), arith::CmpFPredicate::OEQ, sum, sum);
        return kb.selectf(ordered, sum, kb.f32(-std::numeric_limits<double>::infinity()));
      });
      kb.store(ranked, biased, {e}, {count});
    });
    kb.forLoop(zero, kb.index(shape.experts), 1,
               [&](Value e) { kb.storeScalar(kb.i32(0), taken, {e}); });
    kb.forLoop(zero, kb.index(shape.topK), 1, [&](Value) {
      kb.storeScalar(kb.i32(1), taken, {emitBest(kb, biased, taken, shape.experts)});
    });
    // Ids ascending; weights are the unbiased scores over their sum.
    Values packed = kb.forLoop(
        zero, kb.index(shape.experts), 1, {zero, kb.f32(0)}, [&](Value e, ValueRange carried) {
          Value chosen = kb.equal(kb.loadIndex(taken, {e}), kb.index(1));
          return kb.choose(
              chosen,
              [&] {
                Value score = kb.loadScalar(scores, {e});
                kb.storeScalar(e, ids, {row, carried[0]});
                kb.storeScalar(score, weights, {row, carried[0]});
                return Values{kb.add(carried[0], 1), kb.addf(carried[1], score)};
              },
              [&] { return Values{carried[0], carried[1]}; });
        });
    kb.forLoop(zero, kb.index(shape.topK), 1, [&](Value slot) {
      Value share = kb.divf(kb.loadScalar(weights, {row, slot}), packed[1]);
      kb.storeScalar(kb.mulf(share, kb.f32(shape.scale)), weights, {row, slot});
    });
  });
  return kb.finish();
}

/// Router logits of `x` and the choice by them, into new buffers for `ids` and `weights`.
static LogicalResult emitRoute(StepLowering &step, m3::RouteOp route, RowBuffer x, Value ids,
                               Value weights) {
  m3::WeightOp router = step.weightOp(route.getRouter());
  RouteShape shape{router.weightType().rows(), int64_t(route.getTopK()),
                   route.getScale().convertToDouble(), route.getBias().has_value()};
  RowBuffer logits =
      step.scratchRows("router_logits", shape.experts, Float32Type::get(step.module.getContext()));
  if (failed(emitProject(step, x, route.getRouterAttr(), {}, logits, false)))
    return failure();
  std::string name = formatv("route_{0}_top{1}_{2}{3}", shape.experts, shape.topK,
                             int64_t(shape.scale * 1000), shape.bias ? "_bias" : "");
  tile::KernelOp kernel = step.kernel(name, [&] { return buildRoute(step, name, shape); });
  SmallVector<LaunchArgument> arguments = {
      {step.batch(planir::BatchArray::Counts), planir::Access::Read},
      {logits.buffer, planir::Access::Read}};
  if (shape.bias)
    arguments.push_back(
        {step.weight(step.vector(step.weightOp(*route.getBias()))), planir::Access::Read});
  Value chosen = step.makeBuffer(ids, "expert_ids");
  arguments.push_back({chosen, planir::Access::Write});
  arguments.push_back({step.makeBuffer(weights, "expert_weights"), planir::Access::Write});
  int64_t layer = layerOf(route.getRouter());
  step.launch(kernel, arguments, {{step.rows, 0}}, formatv("layers.{0}.route", layer).str());
  step.tap(planir::TapKind::Experts, layer, shape.topK * 4, chosen);
  return success();
}

LogicalResult lowerRoute(Operation *op, StepLowering &step) {
  auto route = cast<m3::RouteOp>(op);
  return emitRoute(step, route, step.rowsOf(route.getX()), route.getIds(), route.getWeights());
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
  return emitRoute(step, route, step.rowsOf(normed), outputOf(route.getIds()),
                   outputOf(route.getWeights()));
}

} // namespace m3c::kernel
