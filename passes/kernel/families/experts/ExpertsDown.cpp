// Down products of experts, weighted and added.
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/experts/ExpertKernels.h"

using namespace mlir;

namespace m3c::kernel {

/// Of both kernels; `apart`: with y, counters and ys.
static SmallVector<Type> parameterTypes(MLIRContext *context, const MoeShape &moe, bool apart) {
  tile::ViewType list = tile::ViewType::get(context, {ShapedType::kDynamic},
                                            Float32Type::get(context), tile::Space::Global);
  Type outputs = rowsType(context, moe.hidden, moe.element); // of experts, before they are added
  SmallVector<Type> types = {countsType(context), listType(context), list,
                             rowsType(context, moe.width(), moe.element)};
  if (moe.residual)
    types.push_back(rowsType(context, moe.hidden, moe.residual));
  llvm::append_range(types, weightParameterTypes(context, moe.down));
  types.push_back(rowsType(context, moe.hidden, moe.result));
  if (apart)
    types.append({outputs, listType(context)});
  if (!moe.sharedDown)
    return types;
  types.push_back(rowsType(context, moe.sharedWidth(), moe.element));
  llvm::append_range(types, weightParameterTypes(context, *moe.sharedDown));
  if (apart)
    types.push_back(outputs);
  return types;
}

namespace {

/// The kernel of buildExpertsDown.
class DownTogether {
public:
  DownTogether(StepLowering &step, StringRef name, const MoeShape &moe, const Schedule &routed,
               const Schedule &shared)
      : moe(moe), routed(routed), shared(shared), cols(routed.at("panels") * panelOutputs),
        // A product of few rows is too short to hide the start of its weights: each one brings the
        // next expert's near, and the last one the first's of the next work item.
        streams(routed.count("ring") && !routed.at("ring")),
        kb(step.module, name, "experts_down", routed, parameters(step, moe)),
        groups(kb, kb.parameter(1), moe.experts) {
    kb.useWarps(shared);
    unsigned next = 4;
    residual = moe.residual ? kb.parameter(next++) : Value();
    down = bindWeight(kb, moe.down, next);
    out = kb.parameter(next++);
    firstShared = next;
    sums = moe.result.isF32() ? out : kb.parameter(parameters(step, moe).size() - 1);
  }

  tile::KernelOp build() {
    zero = kb.index(0);
    rows = kb.loadIndex(kb.parameter(0), {zero});
    panel = kb.mul(kb.blockId(tile::Axis::X), routed.at("panels"));
    col = kb.mul(panel, panelOutputs);
    begin();
    addRouted();
    if (moe.sharedDown)
      addShared();
    if (sums != out)
      store();
    return kb.finish();
  }

private:
  static SmallVector<Type> parameters(StepLowering &step, const MoeShape &moe) {
    SmallVector<Type> types = parameterTypes(step.module.getContext(), moe, false);
    if (!moe.result.isF32())
      types.push_back(rowsType(step.module.getContext(), moe.hidden));
    return types;
  }

  /// Sums start from the residual.
  void begin() {
    kb.eachByWarp(zero, rows, [&](Value row) {
      Value start =
          residual ? kb.loadF32(residual, {row, col}, {1, cols}, 1, cols) : kb.fill(0.0, 1, cols);
      kb.store(start, sums, {row, col}, {1, cols});
    });
    kb.barrier();
  }

  Value firstPanel(Value item) {
    return kb.add(kb.mul(groups.expert(item), moe.down.panels), panel);
  }

  void addRouted() {
    Value active = groups.active();
    if (streams)
      kb.when(kb.less(zero, active),
              [&] { bringStartNear(kb, {down, {}, {}, {}, firstPanel(zero), {}, routed}); });
    kb.forLoop(zero, active, 1, [&](Value item) { addExpert(item, active); });
  }

  void addExpert(Value item, Value active) {
    Value expert = groups.expert(item), end = groups.end(item);
    Value scale = down.global ? kb.loadScalar(down.global, {expert}) : Value();
    Value first = firstPanel(item), next;
    if (streams) {
      Value last = kb.equal(kb.add(item, 1), active);
      next = kb.add(firstPanel(kb.selectf(last, zero, kb.add(item, 1))),
                    kb.selectf(last, kb.index(routed.at("panels")), zero));
    }
    eachRowBlock(kb, groups.begin(item), end, routed, [&](Value begin, Value blockEnd) {
      Product product{down, kb.parameter(3), begin, blockEnd, first, {}, routed, next, streams};
      emitProduct(kb, product,
                  [&](Value acc, Value entry) { addWeighted(acc, entry, blockEnd, scale); });
    });
  }

  /// sums[row] += share · value for each row of a tile of entries.
  void addWeighted(Value acc, Value entry, Value end, Value scale) {
    auto type = cast<tile::TileType>(acc.getType());
    if (moe.rounds()) {
      acc = rounded(acc, scale);
      scale = {};
    }
    for (int64_t r = 0; r < type.getRows(); ++r) {
      Value at = kb.add(entry, r);
      kb.when(kb.less(at, end), [&] {
        Value source = groups.entry(at);
        Value row = kb.div(source, moe.topK);
        Value share = kb.loadScalar(kb.parameter(2), {source});
        if (scale)
          share = kb.mulf(share, scale);
        Value value = kb.slice(acc, r, 0, 1, type.getCols());
        Value old = kb.load(sums, {row, col}, {1, type.getCols()}, 1, type.getCols());
        kb.store(kb.fma(value, kb.fill(share, 1, 1), old), sums, {row, col}, {1, type.getCols()});
      });
    }
  }

  /// A product with the global scale of its weight, if there is one, rounded to BF16.
  Value rounded(Value acc, Value scale) {
    return kb.map(acc, cast<tile::TileType>(acc.getType()), [&](ValueRange args) {
      Value value = scale ? kb.mulf(args[0], scale) : args[0];
      return kb.round(value, tile::Format::BF16);
    });
  }

  void addShared() {
    unsigned next = firstShared;
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

  /// The sums as the result has them.
  void store() {
    kb.barrier();
    kb.eachByWarp(zero, rows, [&](Value row) {
      kb.storeF32(kb.load(sums, {row, col}, {1, cols}, 1, cols), out, {row, col}, {1, cols});
    });
  }

  const MoeShape &moe;
  const Schedule &routed, &shared;
  const int64_t cols;
  const bool streams;
  KernelBuilder kb;
  Groups groups;
  WeightView down;
  Value residual, out, sums, zero, rows, panel, col;
  unsigned firstShared; ///< parameter of the shared expert's rows
};

} // namespace

tile::KernelOp buildExpertsDown(StepLowering &step, StringRef name, const MoeShape &moe,
                                const Schedule &routed, const Schedule &shared) {
  return DownTogether(step, name, moe, routed, shared).build();
}

static Value scaled(KernelBuilder &kb, Value acc, Value scale) {
  if (!scale)
    return acc;
  return kb.map(acc, cast<tile::TileType>(acc.getType()),
                [&](ValueRange args) { return kb.mulf(args[0], scale); });
}

void emitDownProduct(KernelBuilder &kb, const Product &product, Value scale, Value y, Value col,
                     Groups &groups) {
  RowEpilogue epilogue;
  epilogue.load = [&](Value row, tile::TileType acc) {
    Values entries = {groups.entry(row)};
    for (int64_t r = 1; r < acc.getRows(); ++r)
      entries.push_back(groups.entry(kb.min(kb.add(row, r), kb.add(product.rowEnd, -1))));
    return entries;
  };
  epilogue.store = [&](Value acc, Value row, ValueRange entries) {
    auto type = cast<tile::TileType>(acc.getType());
    acc = scaled(kb, acc, scale);
    for (int64_t r = 0; r < type.getRows(); ++r)
      kb.when(kb.less(kb.add(row, r), product.rowEnd), [&] {
        kb.storeF32(kb.slice(acc, r, 0, 1, type.getCols()), y, {entries[size_t(r)], col},
                    {1, type.getCols()});
      });
  };
  emitProduct(kb, product, epilogue);
}

Value ExpertOutputs::sum(KernelBuilder &kb, int64_t topK, Value row, Value col,
                         int64_t cols) const {
  auto load = [&](Value view, Value at) { return kb.loadF32(view, {at, col}, {1, cols}, 1, cols); };
  Value first = kb.mul(row, topK), sum = residual ? load(residual, row) : Value();
  for (int64_t slot = 0; slot < topK; ++slot) {
    Value entry = kb.add(first, slot);
    Value share = kb.fill(kb.loadScalar(weights, {entry}), 1, 1);
    sum = kb.fma(load(routed, entry), share, sum ? sum : kb.fill(0.0, 1, cols));
  }
  if (!shared)
    return sum;
  return kb.map({sum, load(shared, row)}, 1, cols,
                [&](ValueRange args) { return kb.addf(args[0], args[1]); });
}

namespace {

/// The kernel of buildExpertsDownApart.
class DownApart {
public:
  DownApart(StepLowering &step, StringRef name, const MoeShape &moe, const Schedule &routed,
            const Schedule &shared)
      : moe(moe), routed(routed), shared(shared),
        kb(step.module, name, "experts_down", routed,
           parameterTypes(step.module.getContext(), moe, true)),
        groups(kb, kb.parameter(1), moe.experts) {
    kb.useWarps(shared);
    unsigned next = 4;
    residual = moe.residual ? kb.parameter(next++) : Value();
    down = bindWeight(kb, moe.down, next);
    out = kb.parameter(next++);
    y = kb.parameter(next++);
    counters = kb.parameter(next++);
    if (!moe.sharedDown)
      return;
    zs = kb.parameter(next++);
    sharedDown = bindWeight(kb, *moe.sharedDown, next);
    ys = kb.parameter(next);
  }

  tile::KernelOp build() {
    rows = kb.loadIndex(kb.parameter(0), {kb.index(0)});
    part = kb.blockId(tile::Axis::X);
    panel = kb.mul(part, routed.at("panels"));
    col = kb.mul(panel, panelOutputs);
    item = kb.sub(kb.blockId(tile::Axis::Y), kb.index(moe.sharedDown ? 1 : 0));
    active = groups.active();
    Value expert = groups.expert(item), begin = groups.begin(item), end = groups.end(item);
    kb.when(kb.less(item, active), [&] {
      auto routedPart = [&] { multiplyRouted(expert, begin, end); };
      if (moe.sharedDown)
        kb.when(kb.less(item, kb.index(0)), [&] { multiplyShared(); }, routedPart);
      else
        routedPart();
      Value items = kb.add(active, moe.sharedDown ? 1 : 0);
      kb.when(kb.arriveLast(counters, part, items), [&] { add(); });
    });
    return kb.finish();
  }

private:
  /// The expert's rows, each stored where its entry of the router's choice stands.
  void multiplyRouted(Value expert, Value begin, Value end) {
    Value scale = down.global ? kb.loadScalar(down.global, {expert}) : Value();
    Value first = kb.add(kb.mul(expert, moe.down.panels), panel);
    eachRowBlock(kb, begin, end, routed, [&](Value blockBegin, Value blockEnd) {
      Product product{down, kb.parameter(3), blockBegin, blockEnd, first, {}, routed};
      emitDownProduct(kb, product, scale, y, col, groups);
    });
  }

  void multiplyShared() {
    Value scale = sharedDown.global ? kb.loadScalar(sharedDown.global, {kb.index(0)}) : Value();
    eachRowBlock(kb, kb.index(0), rows, shared, [&](Value begin, Value end) {
      Product product{sharedDown, zs, begin, end, panel, {}, shared};
      emitProduct(kb, product, [&](Value acc, Value row) {
        auto type = cast<tile::TileType>(acc.getType());
        kb.storeF32(scaled(kb, acc, scale), ys, {row, col}, {type.getRows(), type.getCols()}, end);
      });
    });
  }

  /// For these columns of every row.
  void add() {
    int64_t cols = routed.at("panels") * panelOutputs;
    ExpertOutputs outputs = {kb.parameter(2), y, residual, ys};
    kb.eachByWarp(kb.index(0), rows, [&](Value row) {
      kb.storeF32(outputs.sum(kb, moe.topK, row, col, cols), out, {row, col}, {1, cols});
    });
  }

  const MoeShape &moe;
  const Schedule &routed, &shared;
  KernelBuilder kb;
  Groups groups;
  WeightView down, sharedDown;
  Value residual, out, y, counters, zs, ys;
  Value rows, part, panel, col, item, active;
};

} // namespace

tile::KernelOp buildExpertsDownApart(StepLowering &step, StringRef name, const MoeShape &moe,
                                     const Schedule &routed, const Schedule &shared) {
  return DownApart(step, name, moe, routed, shared).build();
}

} // namespace m3c::kernel
