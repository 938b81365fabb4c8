#include "passes/kernel/products/SharedProduct.h"

#include "passes/kernel/families/Common.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <bit>

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

static Type bf16Codes(MLIRContext *context) { return IntegerType::get(context, 16); }

tile::ViewType stagesType(MLIRContext *context, const Schedule &schedule) {
  return tile::ViewType::get(context, {ShapedType::kDynamic, schedule.at("rows"), fragmentK},
                             bf16Codes(context), tile::Space::Global);
}

//===- Packed rows ----------------------------------------------------------------------------===//

static constexpr int64_t packingWarps = 8;

/// Parameters: counts, x [rows, k], stages. A work item packs a stage.
static tile::KernelOp buildPackRows(StepLowering &step, StringRef name, int64_t k, int64_t tileRows,
                                    int64_t countIndex) {
  MLIRContext *context = step.module.getContext();
  Schedule schedule = {{"rows", tileRows}, {"warps", packingWarps}};
  KernelBuilder kb(step.module, name, "pack_rows", schedule,
                   {countsType(context), rowsType(context, k, bf16Codes(context)),
                    stagesType(context, schedule)});
  Value rows = kb.loadIndex(kb.parameter(0), {kb.index(countIndex)});
  Value unit = kb.blockId(tile::Axis::X), rowTile = kb.blockId(tile::Axis::Y);
  Value begin = kb.mul(rowTile, tileRows);
  kb.when(kb.less(begin, rows), [&] {
    int64_t count = tileRows / packingWarps;
    Value first = kb.mul(kb.warpId(), count);
    tile::PackRowsOp::create(
        kb.builder(), kb.parameter(1), kb.add(begin, first), kb.mul(unit, fragmentK), rows,
        kb.parameter(2), kb.add(kb.mul(rowTile, k / fragmentK), unit), first, count, StringAttr());
  });
  return kb.finish();
}

Value packRows(StepLowering &step, Value x, int64_t k, const Schedule &schedule, int64_t countIndex,
               StringRef label) {
  int64_t tileRows = schedule.at("rows"), tiles = llvm::divideCeil(step.rows, tileRows);
  std::string name = formatv("pack_rows_{0}_rows{1}{2}", k, tileRows, countIndex ? "_logits" : "");
  tile::KernelOp kernel =
      step.kernel(name, [&] { return buildPackRows(step, name, k, tileRows, countIndex); });
  Value stages = step.scratch("packed_rows", 0, 0, tiles * tileRows * k * 2);
  step.launch(kernel,
              {{step.batch(planir::BatchArray::Counts), planir::Access::Read},
               {x, planir::Access::Read},
               {stages, planir::Access::Write}},
              {{k / fragmentK, 0}, {tiles, 0}}, (label + ".pack_rows").str());
  return stages;
}

tile::ViewType multipliedType(MLIRContext *context, const PackedWeight &weight,
                              const Schedule &schedule, Type x) {
  return sharesRows(schedule) ? stagesType(context, schedule) : rowsType(context, weight.k, x);
}

Value multipliedRows(StepLowering &step, Value x, const PackedWeight &weight,
                     const Schedule &schedule, int64_t countIndex, StringRef label) {
  return sharesRows(schedule) ? packRows(step, x, weight.k, schedule, countIndex, label) : x;
}

//===- The product ----------------------------------------------------------------------------===//

Schedule fitSharedRows(Schedule schedule, const PackedWeight &weight) {
  int64_t &rows = schedule["rows"], &panels = schedule["panels"], &ahead = schedule["ahead"];
  rows = int64_t(std::bit_floor(uint64_t(std::clamp<int64_t>(rows, 64, 128))));
  panels = panels >= 8 && (weight.panels % 8 == 0 || weight.panels % 4) ? 8 : 4;
  schedule["row_block"] = rows;
  schedule["warps"] = panels + 1;
  int64_t units = weight.k / fragmentK, cluster = choiceOf(schedule, "cluster", 1);
  while (units % cluster)
    --cluster;
  schedule["cluster"] = cluster;
  ahead = std::max<int64_t>(ahead, 1); // 0 is for other products
  while (units / cluster % ahead)
    --ahead;
  int64_t sumStages = panels * panelOutputs * 4 / (fragmentK * 2); // that have as many bytes
  schedule["stages"] = std::max(choiceOf(schedule, "stages"), sumStages);
  return schedule;
}

namespace {

class SharedProduct {
public:
  SharedProduct(KernelBuilder &kb, const Product &product)
      : kb(kb), product(product), shape(product.weight.shape), rows(product.schedule.at("rows")),
        panels(product.schedule.at("panels")), ahead(product.schedule.at("ahead")),
        units(shape.k / fragmentK), each(units / kb.cluster()) {}

  void emit(Epilogue epilogue) {
    kb.when(kb.less(product.rowBegin, product.rowEnd), [&] {
      ring = kb.ring(product.schedule.at("stages"), {rows, fragmentK},
                     bf16Codes(kb.builder().getContext()), panels);
      Value sums = tile::RingMemoryOp::create(
          kb.builder(),
          kb.view({1, rows, panels * panelOutputs}, kb.f32Type(), tile::Space::Shared), ring);
      rank = kb.clusterRank();
      auto storeParts = [&] {
        kb.roles([&] {
          kb.role("multiply", {panels, 0}, [&] { multiply(sums); });
          kb.role("load", {1, 0}, [&] { load(); });
        });
      };
      addParts(kb, product, sums, product.rowBegin, storeParts,
               [&](Value sum, Value at) { epilogue(unscaledSums(kb, shape, sum), at); });
    });
  }

private:
  /// The i-th unit of 64 k of this work item.
  Value unit(Value i) { return kb.add(kb.mul(i, kb.cluster()), rank); }

  void load() {
    Value first = kb.mul(kb.div(product.rowBegin, rows), units);
    kb.forLoop(kb.index(0), kb.index(each), 1, [&](Value i) {
      kb.acquire(ring, i);
      kb.fillStage(ring, i, product.x, {kb.add(first, unit(i)), kb.index(0), kb.index(0)});
      kb.commit(ring, i);
    });
  }

  /// A panel in each warp. While a product is under way, the next left operand is made, in other
  /// registers, of codes that were asked for `ahead` products before.
  void multiply(Value sums) {
    Value warp = kb.warpId(), panel = kb.add(product.panel, warp);
    if (shape.panels % panels) // the last work item has fewer; a warp without one repeats the last
      panel = kb.min(panel, kb.index(shape.panels - 1));
    auto codesOf = [&](Value i) {
      return loadFragment(kb, product.weight, panel, unit(kb.min(i, kb.index(each - 1))));
    };
    Values carried = {tile::FillOp::create(
        kb.builder(), kb.fragment(16, rows, kb.f32Type(), tile::Layout::MmaAcc), kb.f32(0))};
    carried.push_back(dequantised(kb, shape, codesOf(kb.index(0))));
    for (int64_t i = 1; i <= ahead; ++i)
      append(carried, codesOf(kb.index(i)));
    carried = kb.forLoop(kb.index(0), kb.index(each), ahead, carried,
                         [&](Value first, ValueRange values) {
                           Values state(values.begin(), values.end());
                           for (int64_t i = 0; i < ahead; ++i)
                             step(kb.add(first, i), i, state, codesOf);
                           return state;
                         });
    Value added = await(carried[0], 0);
    kb.release(ring, kb.index(each - 1));
    kb.barrier(); // nobody multiplies with the stages any more
    tile::StoreTransposedOp::create(
        kb.builder(), added, sums, ValueRange{kb.index(0), kb.index(0), kb.mul(warp, panelOutputs)},
        IntegerAttr());
  }

  Value await(Value sums, int64_t leaves) {
    return tile::MmaWaitOp::create(kb.builder(), sums.getType(), sums, leaves, StringAttr());
  }

  /// `state`: sums, the left operand of product `i`, codes of the `ahead` ones after it, those of
  /// the next one in `slot`. The product before ends while this one waits for its turn.
  void step(Value i, int64_t slot, Values &state, function_ref<FragmentCodes(Value)> codesOf) {
    Value stage = kb.wait(ring, i);
    state[0] = tile::MmaSharedOp::create(kb.builder(), state[0].getType(), state[1], stage,
                                         state[0], StringAttr());
    state[0] = await(state[0], 1);
    auto release = [&] { kb.release(ring, kb.sub(i, kb.index(1))); };
    if (slot)
      release();
    else
      kb.when(kb.less(kb.index(0), i), release);
    size_t at = 2 + size_t(slot) * codeValues();
    state[1] = dequantised(kb, shape, {state[at], product.weight.scales ? state[at + 1] : Value()});
    Values codes;
    append(codes, codesOf(kb.add(i, ahead + 1)));
    llvm::copy(codes, state.begin() + long(at));
  }

  size_t codeValues() const { return product.weight.scales ? 2 : 1; }
  static void append(Values &values, const FragmentCodes &codes) {
    values.push_back(codes.words);
    if (codes.scales)
      values.push_back(codes.scales);
  }

  KernelBuilder &kb;
  const Product &product;
  const PackedWeight &shape;
  const int64_t rows, panels, ahead, units;
  const int64_t each; ///< units of a work item
  Value ring, rank;
};

} // namespace

void emitSharedProduct(KernelBuilder &kb, const Product &product, Epilogue epilogue) {
  SharedProduct(kb, product).emit(epilogue);
}

} // namespace m3c::kernel
