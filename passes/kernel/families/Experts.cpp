// Family "experts": the chosen experts of every row with the shared expert.
//
// Four launches, three for few rows: group (which rows each expert has), gather (rows in the order
// of their experts, many rows only), up (gate and up products with SwiGLU), down (down product,
// weighted and added to the residual in the order of the expert ids, the shared expert last).
#include "passes/kernel/Families.h"
#include "passes/kernel/Product.h"
#include "passes/kernel/families/Common.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {
namespace {

/// Sizes of one MoE layer and the packed weights; `shared*` are absent where there is no shared
/// expert.
struct MoeShape {
  int64_t experts, topK, hidden;
  PackedWeight up, down;
  std::optional<PackedWeight> sharedUp, sharedDown;
  double alpha, limit;
  Type element; ///< of the rows and activations; each expert's output is rounded alike
  Type result;  ///< of the sum

  bool rounds() const { return !element.isF32(); }

  int64_t width() const { return up.outputs / 2; }
  int64_t sharedWidth() const { return sharedUp ? sharedUp->outputs / 2 : 0; }
};

/// The list that `group` writes, of 32-bit integers: the number of active experts, their ids, the
/// first entry of each (and the end of the last), then the entries (row · top-k + slot) expert by
/// expert.
class Groups {
public:
  Groups(KernelBuilder &kb, Value list, int64_t experts) : kb(kb), list(list), experts(experts) {}
  static int64_t fixedBytes(int64_t experts) { return 4 * (2 * experts + 2); }

  Value active() { return kb.loadIndex(list, {kb.index(0)}); }
  Value expert(Value i) { return kb.loadIndex(list, {kb.add(i, 1)}); }
  Value begin(Value i) { return kb.loadIndex(list, {kb.add(i, 1 + experts)}); }
  Value end(Value i) { return kb.loadIndex(list, {kb.add(i, 2 + experts)}); }
  Value entry(Value i) { return kb.loadIndex(list, {kb.add(i, 2 + 2 * experts)}); }

  void setActive(Value value) { kb.storeScalar(value, list, {kb.index(0)}); }
  void setExpert(Value i, Value value) { kb.storeScalar(value, list, {kb.add(i, 1)}); }
  void setBegin(Value i, Value value) { kb.storeScalar(value, list, {kb.add(i, 1 + experts)}); }
  void setEntry(Value i, Value value) { kb.storeScalar(value, list, {kb.add(i, 2 + 2 * experts)}); }

private:
  KernelBuilder &kb;
  Value list;
  int64_t experts;
};

/// Parameters: counts, ids [rows·k], groups. One work item.
tile::KernelOp buildGroup(StepLowering &step, StringRef name, const MoeShape &moe) {
  MLIRContext *context = step.module.getContext();
  KernelBuilder kb(step.module, name, "expert_group", {},
                   {countsType(context), listType(context), listType(context)});
  Groups groups(kb, kb.parameter(2), moe.experts);
  Value ids = kb.parameter(1), zero = kb.index(0), experts = kb.index(moe.experts);
  Value entries = kb.mul(kb.loadIndex(kb.parameter(0), {zero}), moe.topK);
  Value next = kb.alloc({moe.experts}, kb.i32Type()); // entries of an expert, then its next place
  kb.forLoop(zero, experts, 1, [&](Value e) { kb.storeScalar(kb.i32(0), next, {e}); });
  kb.forLoop(zero, entries, 1, [&](Value i) {
    Value e = kb.loadIndex(ids, {i});
    kb.storeScalar(kb.add(kb.loadIndex(next, {e}), 1), next, {e});
  });
  Values total = kb.forLoop(zero, experts, 1, {zero, zero}, [&](Value e, ValueRange carried) {
    Value count = kb.loadIndex(next, {e});
    kb.storeScalar(carried[1], next, {e});
    return kb.choose(
        kb.less(zero, count),
        [&] {
          groups.setExpert(carried[0], e);
          groups.setBegin(carried[0], carried[1]);
          return Values{kb.add(carried[0], 1), kb.add(carried[1], count)};
        },
        [&] { return Values{carried[0], carried[1]}; });
  });
  groups.setActive(total[0]);
  groups.setBegin(total[0], total[1]);
  kb.forLoop(zero, entries, 1, [&](Value i) {
    Value e = kb.loadIndex(ids, {i});
    Value place = kb.loadIndex(next, {e});
    groups.setEntry(place, i);
    kb.storeScalar(kb.add(place, 1), next, {e});
  });
  return kb.finish();
}

/// Parameters: counts, groups, x [rows,H], gathered [rows·k,H]. One work item per entry.
tile::KernelOp buildGather(StepLowering &step, StringRef name, const MoeShape &moe,
                           const Schedule &schedule) {
  MLIRContext *context = step.module.getContext();
  KernelBuilder kb(step.module, name, "expert_gather", schedule,
                   {countsType(context), listType(context),
                    rowsType(context, moe.hidden, moe.element),
                    rowsType(context, moe.hidden, moe.element)});
  Groups groups(kb, kb.parameter(1), moe.experts);
  Value i = kb.blockId(tile::Axis::X);
  Value entries = kb.mul(kb.loadIndex(kb.parameter(0), {kb.index(0)}), moe.topK);
  kb.when(kb.less(i, entries), [&] {
    Value row = kb.div(groups.entry(i), moe.topK);
    eachChunkByWarp(kb, moe.hidden, chunkOf(schedule), [&](Value col, int64_t cols) {
      Value v = kb.load(kb.parameter(2), {row, col}, {1, cols}, 1, cols);
      kb.store(v, kb.parameter(3), {i, col}, {1, cols});
    });
  });
  return kb.finish();
}

/// Rows [begin, end) in blocks as large as the partial sums that wait in shared memory.
void eachRowBlock(KernelBuilder &kb, Value begin, Value end, const Schedule &schedule,
                  llvm::function_ref<void(Value blockBegin, Value blockEnd)> body) {
  auto found = schedule.find("row_block");
  if (found == schedule.end()) {
    body(begin, end);
    return;
  }
  int64_t block = found->second;
  kb.forLoop(begin, end, block,
             [&](Value blockBegin) { body(blockBegin, kb.min(kb.add(blockBegin, block), end)); });
}

/// Gate and up products of rows [begin, end) with SwiGLU, for the panels of this work item.
void emitUp(KernelBuilder &kb, const WeightView &weight, Value x, Value z, Value begin, Value end,
            Value firstPanel, Value panel, const std::function<Value(Value)> &rowOfX,
            Value gateScale, Value upScale, const MoeShape &moe, const Schedule &schedule) {
  int64_t outputs = weight.shape.outputs / 2;
  eachRowBlock(kb, begin, end, schedule, [&](Value blockBegin, Value blockEnd) {
    Product product{weight, x, blockBegin, blockEnd, kb.add(firstPanel, panel), rowOfX, schedule};
    emitProduct(kb, product, [&](Value acc, Value row) {
      emitPairedSwiglu(kb, acc, gateScale, upScale, moe.alpha, moe.limit,
                       [&](Value out, int64_t pair) {
                         Value col = kb.mul(kb.add(kb.div(panel, 2), pair), panelOutputs);
                         storeColumns(kb, out, z, row, col, outputs, blockEnd);
                       });
    });
  });
}

/// Parameters: counts, groups, x (rows, or gathered rows), routed weight…, z [rows·k,I], and with a
/// shared expert: x [rows,H], its weight…, zs [rows,Is]. Grid: panels, active experts and
/// last the shared one.
tile::KernelOp buildUp(StepLowering &step, StringRef name, const MoeShape &moe,
                       const Schedule &routed, const Schedule &shared, bool gathered) {
  MLIRContext *context = step.module.getContext();
  SmallVector<Type> types = {countsType(context), listType(context),
                             rowsType(context, moe.hidden, moe.element)};
  llvm::append_range(types, weightParameterTypes(context, moe.up));
  types.push_back(rowsType(context, moe.width(), moe.element));
  if (moe.sharedUp) {
    types.push_back(rowsType(context, moe.hidden, moe.element));
    llvm::append_range(types, weightParameterTypes(context, *moe.sharedUp));
    types.push_back(rowsType(context, moe.sharedWidth(), moe.element));
  }
  KernelBuilder kb(step.module, name, "experts_up", routed, types);
  kb.useWarps(shared);
  unsigned next = 3;
  WeightView up = bindWeight(kb, moe.up, next);
  Value z = kb.parameter(next++);
  Groups groups(kb, kb.parameter(1), moe.experts);
  // Panels first: neighbours read one run of memory, and the same rows.
  Value part = kb.blockId(tile::Axis::X), item = kb.blockId(tile::Axis::Y), zero = kb.index(0);

  kb.when(kb.less(item, groups.active()), [&] {
    Value panel = kb.mul(part, routed.at("panels"));
    kb.when(kb.less(panel, kb.index(moe.up.panels)), [&] {
      Value expert = groups.expert(item);
      std::function<Value(Value)> rowOfX;
      if (!gathered)
        rowOfX = [&](Value entry) { return kb.div(groups.entry(entry), moe.topK); };
      auto scale = [&](int64_t i) {
        return up.global ? kb.loadScalar(up.global, {kb.add(kb.mul(expert, 2), i)}) : Value();
      };
      emitUp(kb, up, kb.parameter(2), z, groups.begin(item), groups.end(item),
             kb.mul(expert, moe.up.panels), panel, rowOfX, scale(0), scale(1), moe, routed);
    });
  });
  if (moe.sharedUp) {
    Value x = kb.parameter(next++);
    WeightView view = bindWeight(kb, *moe.sharedUp, next);
    Value zs = kb.parameter(next);
    // The last item of the first axis, which no active expert can have.
    Value last = kb.index(std::min(step.rows * moe.topK, moe.experts));
    kb.when(kb.equal(item, last), [&] {
      Value panel = kb.mul(part, shared.at("panels"));
      kb.when(kb.less(panel, kb.index(moe.sharedUp->panels)), [&] {
        auto scale = [&](int64_t i) {
          return view.global ? kb.loadScalar(view.global, {kb.index(i)}) : Value();
        };
        emitUp(kb, view, x, zs, zero, kb.loadIndex(kb.parameter(0), {zero}), zero, panel, {},
               scale(0), scale(1), moe, shared);
      });
    });
  }
  return kb.finish();
}

/// A product with the global scale of its weight, if there is one, rounded to BF16.
Value roundedProduct(KernelBuilder &kb, Value acc, Value scale) {
  return kb.map(acc, cast<tile::TileType>(acc.getType()), [&](ValueRange args) {
    Value value = scale ? kb.mulf(args[0], scale) : args[0];
    return kb.round(value, tile::Format::BF16);
  });
}

/// sums[row] += share · value for each row of a tile of entries.
void emitWeightedAdd(KernelBuilder &kb, Value acc, Value entry, Value end, Value scale,
                     Value weights, Value sums, Value col, Groups &groups, const MoeShape &moe) {
  auto type = cast<tile::TileType>(acc.getType());
  if (moe.rounds()) {
    acc = roundedProduct(kb, acc, scale);
    scale = {};
  }
  for (int64_t r = 0; r < type.getRows(); ++r) {
    Value at = kb.add(entry, r);
    kb.when(kb.less(at, end), [&] {
      Value source = groups.entry(at);
      Value row = kb.div(source, moe.topK);
      Value share = kb.loadScalar(weights, {source});
      if (scale)
        share = kb.mulf(share, scale);
      Value value = kb.slice(acc, r, 0, 1, type.getCols());
      Value old = kb.load(sums, {row, col}, {1, type.getCols()}, 1, type.getCols());
      kb.store(kb.fma(value, kb.fill(share, 1, 1), old), sums, {row, col}, {1, type.getCols()});
    });
  }
}

/// Parameters: counts, groups, weights [rows·k], z [rows·k,I], (residual [rows,H],) routed weight…,
/// out [rows,H], and with a shared expert: zs [rows,Is], its weight…; where out holds BF16, last
/// sums [rows,H] of f32. Grid: panels.
tile::KernelOp buildDown(StepLowering &step, StringRef name, const MoeShape &moe,
                         const Schedule &routed, const Schedule &shared, bool hasResidual) {
  MLIRContext *context = step.module.getContext();
  tile::ViewType list = tile::ViewType::get(context, {ShapedType::kDynamic},
                                            Float32Type::get(context), tile::Space::Global);
  SmallVector<Type> types = {countsType(context), listType(context), list,
                             rowsType(context, moe.width(), moe.element)};
  if (hasResidual)
    types.push_back(rowsType(context, moe.hidden, moe.element));
  llvm::append_range(types, weightParameterTypes(context, moe.down));
  types.push_back(rowsType(context, moe.hidden, moe.result));
  if (moe.sharedDown) {
    types.push_back(rowsType(context, moe.sharedWidth(), moe.element));
    llvm::append_range(types, weightParameterTypes(context, *moe.sharedDown));
  }
  if (!moe.result.isF32())
    types.push_back(rowsType(context, moe.hidden));
  KernelBuilder kb(step.module, name, "experts_down", routed, types);
  kb.useWarps(shared);
  unsigned next = 4;
  Value residual = hasResidual ? kb.parameter(next++) : Value();
  WeightView down = bindWeight(kb, moe.down, next);
  Value out = kb.parameter(next++);
  Value sums = moe.result.isF32() ? out : kb.parameter(types.size() - 1);
  Groups groups(kb, kb.parameter(1), moe.experts);
  Value zero = kb.index(0), rows = kb.loadIndex(kb.parameter(0), {zero});
  int64_t cols = routed.at("panels") * panelOutputs;
  Value panel = kb.mul(kb.blockId(tile::Axis::X), routed.at("panels"));
  Value col = kb.mul(panel, panelOutputs);

  kb.eachByWarp(zero, rows, [&](Value row) {
    Value start =
        residual ? kb.loadF32(residual, {row, col}, {1, cols}, 1, cols) : kb.fill(0.0, 1, cols);
    kb.store(start, sums, {row, col}, {1, cols});
  });
  kb.barrier();
  kb.forLoop(zero, groups.active(), 1, [&](Value item) {
    Value expert = groups.expert(item), end = groups.end(item);
    Value scale = down.global ? kb.loadScalar(down.global, {expert}) : Value();
    Value first = kb.add(kb.mul(expert, moe.down.panels), panel);
    eachRowBlock(kb, groups.begin(item), end, routed, [&](Value begin, Value blockEnd) {
      Product product{down, kb.parameter(3), begin, blockEnd, first, {}, routed};
      emitProduct(kb, product, [&](Value acc, Value entry) {
        emitWeightedAdd(kb, acc, entry, blockEnd, scale, kb.parameter(2), sums, col, groups, moe);
      });
    });
  });
  if (moe.sharedDown) {
    Value zs = kb.parameter(next++);
    WeightView view = bindWeight(kb, *moe.sharedDown, next);
    Value scale = view.global ? kb.loadScalar(view.global, {zero}) : Value();
    eachRowBlock(kb, zero, rows, shared, [&](Value begin, Value end) {
      Product product{view, zs, begin, end, panel, {}, shared};
      emitProduct(kb, product, [&](Value acc, Value row) {
        auto type = cast<tile::TileType>(acc.getType());
        Value old = kb.load(sums, {row, col}, {type.getRows(), type.getCols()}, type.getRows(),
                            type.getCols());
        Value sum = kb.map({acc, old}, type.getRows(), type.getCols(), [&](ValueRange args) {
          Value value = scale ? kb.mulf(args[0], scale) : args[0];
          return kb.addf(args[1], moe.rounds() ? kb.round(value, tile::Format::BF16) : value);
        });
        kb.store(sum, sums, {row, col}, {type.getRows(), type.getCols()}, end);
      });
    });
  }
  if (sums != out) {
    kb.barrier();
    kb.eachByWarp(zero, rows, [&](Value row) {
      kb.storeF32(kb.load(sums, {row, col}, {1, cols}, 1, cols), out, {row, col}, {1, cols});
    });
  }
  return kb.finish();
}

/// A product of the layer: where its weights come from, and how they are packed.
struct MoeProduct {
  StringRef family;
  SmallVector<m3::WeightOp> sources;
  Type element; ///< of the rows that it multiplies
  PackedWeight packed = {};

  int64_t unit() const { return int64_t(sources.size()); } ///< gate and up panels stay together

  LogicalResult pack(StepLowering &step, StringRef name) {
    bool fragments = usesFragments(step.schedule(family, productProblem(sources, element)));
    auto result = step.pack(name, sources, sources.size() > 1, fragments);
    if (failed(result))
      return failure();
    packed = *result;
    return success();
  }

  /// The fitted schedule; `singleRow` picks the one for rows that do not lie side by side.
  Schedule schedule(StepLowering &step, bool singleRow) const {
    Schedule problem = productProblem(sources, element);
    if (singleRow)
      problem["rows"] = 1;
    return fitSchedule(step.schedule(family, problem), packed, unit(), step.rows);
  }
};

/// Buffers of the operands; `residual` is null where the sum starts from zero.
struct MoeOperands {
  Value x, ids, weights, residual;
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
               storedElement(result)};
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

  Value counts = step.batch(planir::BatchArray::Counts);
  auto [x, ids, weights, residual] = operands;
  auto read = [](Value value) { return LaunchArgument{value, planir::Access::Read}; };
  auto write = [](Value value) { return LaunchArgument{value, planir::Access::Write}; };
  auto launchName = [&](StringRef name) { return formatv("layers.{0}.{1}", layer, name).str(); };

  std::string groupName = formatv("expert_group_{0}_top{1}", moe.experts, moe.topK);
  Value groups = step.scratch("expert_groups", moe.topK * 4, 0, Groups::fixedBytes(moe.experts));
  step.launch(step.kernel(groupName, [&] { return buildGroup(step, groupName, moe); }),
              {read(counts), read(ids), write(groups)}, {{1, 0}}, launchName("expert_group"));

  Schedule routedUp = up.schedule(step, false);
  bool gathered = routedUp.count("row_block");
  if (!gathered)
    routedUp = up.schedule(step, true);
  Value rowsOfExperts = x;
  if (gathered) {
    rowsOfExperts = step.scratchRows("expert_rows", moe.hidden, moe.element, moe.topK).buffer;
    Schedule gather = rowSchedule(step, moe.hidden, moe.element);
    std::string name = formatv("expert_gather_{0}_{1}_top{2}{3}{4}", moe.hidden, moe.experts,
                               moe.topK, spellElements(moe.element), spell(gather));
    step.launch(step.kernel(name, [&] { return buildGather(step, name, moe, gather); }),
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
      step.kernel(upName,
                  [&] { return buildUp(step, upName, moe, routedUp, sharedUpSchedule, gathered); }),
      arguments, {{parts, 0}, {items + (moe.sharedUp ? 1 : 0), 0}}, launchName("experts_up"));

  Schedule routedDown = down.schedule(step, !gathered);
  // One work item adds both: their panels must be the same.
  if (moe.sharedDown) {
    int64_t panels = std::min(routedDown.at("panels"), sharedDownSchedule.at("panels"));
    setPanels(routedDown, panels);
    setPanels(sharedDownSchedule, panels);
    sharedSpell = "_shared_" + spell(*moe.sharedDown) + spell(sharedDownSchedule);
  }
  std::string downName =
      formatv("experts_down_{0}{1}_top{2}{3}{4}{5}", spell(moe.down), spell(routedDown), moe.topK,
              residual ? "_residual" : "", sharedSpell, spellElements({moe.element, moe.result}));
  arguments = {read(counts), read(groups), read(weights), read(z)};
  if (residual)
    arguments.push_back(read(residual));
  addWeightArguments(step, moe.down, arguments);
  arguments.push_back(write(step.makeBuffer(result, "hidden")));
  if (moe.sharedDown) {
    arguments.push_back(read(zs));
    addWeightArguments(step, *moe.sharedDown, arguments);
  }
  if (!moe.result.isF32()) {
    Type f32 = Float32Type::get(step.module.getContext());
    arguments.push_back(write(step.scratchRows("expert_sums", moe.hidden, f32).buffer));
  }
  step.launch(step.kernel(downName,
                          [&] {
                            return buildDown(step, downName, moe, routedDown, sharedDownSchedule,
                                             bool(residual));
                          }),
              arguments, {{moe.down.panels / routedDown.at("panels"), 0}},
              launchName("experts_down"));
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
  if (residual.getType() != experts.getX().getType())
    return op->emitError("the kernel reads the residual as ")
           << experts.getX().getType() << ", found " << residual.getType();
  auto outer = [&](Value inner) { return step.bufferOf(outerValue(fused, inner)); };
  return emitExperts(step, experts, shared,
                     {outer(experts.getX()), outer(experts.getIds()), outer(experts.getWeights()),
                      step.bufferOf(residual)},
                     fused.getOutputs()[0]);
}

LogicalResult lowerExperts(Operation *op, StepLowering &step) {
  auto experts = cast<m3::ExpertsOp>(op);
  return emitExperts(step, experts, {},
                     {step.bufferOf(experts.getX()),
                      step.bufferOf(experts.getIds()),
                      step.bufferOf(experts.getWeights()),
                      {}},
                     experts.getResult());
}

} // namespace m3c::kernel
