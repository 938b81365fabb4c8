#include "passes/kernel/families/experts/PackedExperts.h"

#include "passes/kernel/families/Common.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

//===- Tiles ----------------------------------------------------------------------------------===//

void ExpertTiles::note(Value expert, Value begin, Value end) {
  Value last = first(kb.add(expert, 1), end); // the first tile of the next expert
  kb.forLoop(first(expert, begin), last, 1,
             [&](Value tile) { kb.storeScalar(expert, owners, {tile}); });
}

void ExpertTiles::whenFilled(Value tile, Value entries,
                             function_ref<void(Value expert, Value begin, Value end)> body) {
  kb.when(kb.less(tile, first(kb.index(groups.count()), entries)), [&] {
    Value expert = kb.loadIndex(owners, {tile});
    Value begin = groups.begin(expert), end = groups.end(expert);
    begin = kb.add(begin, kb.mul(kb.sub(tile, first(expert, begin)), rows));
    end = kb.min(end, kb.add(begin, rows));
    kb.when(kb.less(begin, end), [&] { body(expert, begin, end); });
  });
}

static Value entriesOf(KernelBuilder &kb, int64_t topK) {
  return kb.mul(kb.loadIndex(kb.parameter(0), {kb.index(0)}), topK);
}

/// Parameters: counts, ids [rows·k], list of `Groups`, owners of tiles if there are any. Grid:
/// experts.
static tile::KernelOp buildExpertList(StepLowering &step, StringRef name, int64_t experts,
                                      int64_t topK, int64_t tileRows) {
  MLIRContext *context = step.module.getContext();
  Type list = listType(context);
  SmallVector<Type> types = {countsType(context), list, list};
  if (tileRows)
    types.push_back(list);
  KernelBuilder kb(step.module, name, "route", {{"warps", 8}}, types);
  Groups groups(kb, kb.parameter(2), experts);
  Value expert = kb.blockId(tile::Axis::X);
  groups.emitExpert(kb.parameter(1), entriesOf(kb, topK), expert, [&](Value begin, Value end) {
    if (tileRows)
      ExpertTiles(kb, groups, kb.parameter(3), tileRows).note(expert, begin, end);
  });
  return kb.finish();
}

Value launchExpertList(StepLowering &step, Value ids, Value groups, int64_t experts, int64_t topK,
                       int64_t tileRows, StringRef label) {
  std::string name = formatv("expert_list_{0}_top{1}", experts, topK);
  if (tileRows)
    name += formatv("_rows{0}", tileRows).str();
  SmallVector<LaunchArgument> arguments = {read(step.batch(planir::BatchArray::Counts)), read(ids),
                                           write(groups)};
  Value owners;
  if (tileRows) {
    int64_t tiles = ExpertTiles::most(step.rows * topK, experts, tileRows);
    owners = step.scratch("expert_tiles", 0, 0, tiles * 4);
    arguments.push_back(write(owners));
  }
  tile::KernelOp kernel =
      step.kernel(name, [&] { return buildExpertList(step, name, experts, topK, tileRows); });
  step.launch(kernel, arguments, {{experts, 0}}, label);
  return owners;
}

//===- Products -------------------------------------------------------------------------------===//

namespace {

/// A kernel whose work items along y are tiles. Its first parameters are counts, groups and owners.
struct TileKernel {
  TileKernel(StepLowering &step, StringRef name, StringRef family, const Schedule &schedule,
             const MoeShape &moe, ArrayRef<Type> types)
      : kb(step.module, name, family, schedule, allTypes(step, types)),
        groups(kb, kb.parameter(1), moe.experts),
        tiles(kb, groups, kb.parameter(2), schedule.at("rows")), entries(entriesOf(kb, moe.topK)),
        tile(kb.blockId(tile::Axis::Y)) {}

  static SmallVector<Type> allTypes(StepLowering &step, ArrayRef<Type> types) {
    MLIRContext *context = step.module.getContext();
    SmallVector<Type> all = {countsType(context), listType(context), listType(context)};
    llvm::append_range(all, types);
    return all;
  }

  tile::KernelOp build(function_ref<void(Value expert, Value begin, Value end)> body) {
    tiles.whenFilled(tile, entries, body);
    return kb.finish();
  }

  KernelBuilder kb;
  Groups groups;
  ExpertTiles tiles;
  Value entries, tile;
};

} // namespace

int64_t PackedExperts::tiles(int64_t tileRows) const {
  return ExpertTiles::most(step.rows * moe.topK, moe.experts, tileRows);
}

/// The stages of all tiles: rows of `x` by entry, or with `listed` by the row that an entry is of.
Value PackedExperts::pack(Value x, int64_t k, int64_t tileRows, bool listed, StringRef label) {
  Type row = rowsType(step.module.getContext(), k, moe.element);
  Schedule schedule = packingSchedule(tileRows);
  Type stagesOf = stagesType(step.module.getContext(), schedule);
  std::string name = formatv("pack_experts_{0}_{1}_top{2}_rows{3}{4}", k, moe.experts, moe.topK,
                             tileRows, listed ? "_listed" : "");
  tile::KernelOp kernel = step.kernel(name, [&] {
    TileKernel tiled(step, name, "pack_rows", schedule, moe, {row, stagesOf});
    KernelBuilder &kb = tiled.kb;
    Value unit = kb.blockId(tile::Axis::X);
    Value stage = kb.add(kb.mul(tiled.tile, k / fragmentK), unit);
    return tiled.build([&](Value, Value begin, Value end) {
      RowList list;
      if (listed)
        list = {tiled.groups.view(), tiled.groups.firstEntry(), moe.topK};
      emitPackStage(kb, kb.parameter(3), begin, end, list, unit, kb.parameter(4), stage);
    });
  });
  Value stages = step.scratch("expert_stages", 0, 0, tiles(tileRows) * tileRows * k * 2);
  step.launch(kernel,
              {read(step.batch(planir::BatchArray::Counts)), read(groups), read(owners), read(x),
               write(stages)},
              {{k / fragmentK, 0}, {tiles(tileRows), 0}}, (label + ".pack_rows").str());
  return stages;
}

/// A work item for each tile and each of its panels: the rows packed in `stages` times a weight
/// into `out`.
void PackedExperts::launchProduct(StringRef family, const PackedWeight &weight, Value stages,
                                  const Schedule &schedule, int64_t width, Value out,
                                  StringRef label, ProductBody body) {
  MLIRContext *context = step.module.getContext();
  std::string name = formatv("{0}_{1}{2}_top{3}{4}", family, spell(weight), spell(schedule),
                             moe.topK, spellElements(moe.element));
  tile::KernelOp kernel = step.kernel(name, [&] {
    SmallVector<Type> types = {stagesType(context, schedule)};
    llvm::append_range(types, weightParameterTypes(context, weight));
    types.push_back(rowsType(context, width, moe.element));
    TileKernel tiled(step, name, family, schedule, moe, types);
    KernelBuilder &kb = tiled.kb;
    unsigned next = 4;
    WeightView view = bindWeight(kb, weight, next);
    Value panel = kb.mul(kb.blockId(tile::Axis::X), schedule.at("panels"));
    return tiled.build([&](Value expert, Value begin, Value end) {
      Value first = kb.add(kb.mul(expert, weight.panels), panel);
      Product product{view, kb.parameter(3), begin, end, first, {}, schedule};
      product.tileOfX = tiled.tile;
      body(kb, tiled.groups, product, panel, expert, kb.parameter(next));
    });
  });
  SmallVector<LaunchArgument> arguments = {read(step.batch(planir::BatchArray::Counts)),
                                           read(groups), read(owners), read(stages)};
  addWeightArguments(step, weight, arguments);
  arguments.push_back(write(out));
  step.launch(kernel, arguments,
              {{weight.panels / schedule.at("panels"), 0}, {tiles(schedule.at("rows")), 0}}, label);
}

void PackedExperts::launchUp(Value x, const Schedule &schedule, Value z, StringRef label) {
  Value stages = pack(x, moe.hidden, schedule.at("rows"), true, label);
  launchProduct("experts_up", moe.up, stages, schedule, moe.width(), z, label,
                [&](KernelBuilder &kb, Groups &, const Product &product, Value panel, Value expert,
                    Value out) { emitUpProduct(kb, product, panel, out, expert, moe); });
}

void PackedExperts::launchDown(Value z, const Schedule &schedule, Value y, StringRef label) {
  Value stages = pack(z, moe.width(), schedule.at("rows"), false, label);
  launchProduct("experts_down", moe.down, stages, schedule, moe.hidden, y, label,
                [&](KernelBuilder &kb, Groups &entries, const Product &product, Value panel,
                    Value expert, Value out) {
                  Value global = product.weight.global;
                  Value scale = global ? kb.loadScalar(global, {expert}) : Value();
                  emitDownProduct(kb, product, scale, out, kb.mul(panel, panelOutputs), entries);
                });
}

//===- Sum ------------------------------------------------------------------------------------===//

void launchExpertSum(StepLowering &step, const MoeShape &moe, Value weights, Value routed,
                     Value residual, Value shared, Value out, StringRef label) {
  MLIRContext *context = step.module.getContext();
  Schedule schedule = rowSchedule(step, moe.hidden, moe.element);
  SmallVector<Type> elements = {moe.element, moe.result};
  Type weightList = tile::ViewType::get(context, {ShapedType::kDynamic}, Float32Type::get(context),
                                        tile::Space::Global);
  Type outputs = rowsType(context, moe.hidden, moe.element);
  SmallVector<Type> types = {countsType(context), weightList, outputs};
  SmallVector<LaunchArgument> arguments = {read(step.batch(planir::BatchArray::Counts)),
                                           read(weights), read(routed)};
  if (residual) {
    elements.push_back(moe.residual);
    types.push_back(rowsType(context, moe.hidden, moe.residual));
    arguments.push_back(read(residual));
  }
  if (shared) {
    types.push_back(outputs);
    arguments.push_back(read(shared));
  }
  types.push_back(rowsType(context, moe.hidden, moe.result));
  arguments.push_back(write(out));
  std::string name = formatv("experts_sum_{0}_top{1}{2}{3}{4}{5}", moe.hidden, moe.topK,
                             residual ? "_residual" : "", shared ? "_shared" : "",
                             spellElements(elements), spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    KernelBuilder kb(step.module, name, "experts_sum", schedule, types);
    unsigned next = 3;
    ExpertOutputs sources = {kb.parameter(1), kb.parameter(2), {}, {}};
    if (residual)
      sources.residual = kb.parameter(next++);
    if (shared)
      sources.shared = kb.parameter(next++);
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      eachChunkByWarp(kb, moe.hidden, chunkOf(schedule), [&](Value col, int64_t cols) {
        kb.storeF32(sources.sum(kb, moe.topK, row, col, cols), kb.parameter(next), {row, col},
                    {1, cols});
      });
    });
    return kb.finish();
  });
  step.launch(kernel, arguments, {{step.rows, 0}}, label);
}

} // namespace m3c::kernel
