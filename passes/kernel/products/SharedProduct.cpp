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

Schedule packingSchedule(int64_t tileRows) { return {{"rows", tileRows}, {"warps", 8}}; }

void emitPackStage(KernelBuilder &kb, Value x, Value begin, Value end, const RowList &list,
                   Value unit, Value stages, Value stage) {
  int64_t tileRows = cast<tile::ViewType>(stages.getType()).getShape()[1];
  int64_t count = tileRows / kb.warps();
  Value first = kb.mul(kb.warpId(), count);
  tile::PackRowsOp::create(kb.builder(), x, kb.add(begin, first), kb.mul(unit, fragmentK),
                           list.list, list.list ? kb.index(list.offset) : Value(), end, stages,
                           stage, first,
                           list.list ? kb.builder().getI64IntegerAttr(list.per) : IntegerAttr(),
                           kb.builder().getI64IntegerAttr(count), StringAttr());
}

/// Parameters: counts, x [rows, k], stages. A work item packs a stage.
static tile::KernelOp buildPackRows(StepLowering &step, StringRef name, int64_t k, int64_t tileRows,
                                    int64_t countIndex) {
  MLIRContext *context = step.module.getContext();
  Schedule schedule = packingSchedule(tileRows);
  KernelBuilder kb(step.module, name, "pack_rows", schedule,
                   {countsType(context), rowsType(context, k, bf16Codes(context)),
                    stagesType(context, schedule)});
  Value rows = kb.loadIndex(kb.parameter(0), {kb.index(countIndex)});
  Value unit = kb.blockId(tile::Axis::X), rowTile = kb.blockId(tile::Axis::Y);
  Value begin = kb.mul(rowTile, tileRows), stage = kb.add(kb.mul(rowTile, k / fragmentK), unit);
  kb.when(kb.less(begin, rows), [&] {
    emitPackStage(kb, kb.parameter(1), begin, rows, {}, unit, kb.parameter(2), stage);
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
  if (sharesRows(schedule))
    return stagesType(context, schedule);
  return isOn(schedule, splitRowsForm) ? partsOfRowsType(context, weight.k)
                                       : rowsType(context, weight.k, x);
}

Value multipliedRows(StepLowering &step, RowBuffer x, const PackedWeight &weight,
                     const Schedule &schedule, int64_t countIndex, StringRef label) {
  Value rows = x.buffer;
  if (isOn(schedule, splitRowsForm))
    rows = splitRows(step, x, weight.k, countIndex, label);
  if (!sharesRows(schedule))
    return rows;
  return packRows(step, rows, weight.k * rowParts(schedule), schedule, countIndex, label);
}

//===- The product ----------------------------------------------------------------------------===//

/// Floats from one row of sums to the next: the accumulators of a warp, eight outputs of four pairs
/// of rows, then come to all banks of shared memory.
static int64_t sumPitch(int64_t panels) { return panels * panelOutputs + 4; }

Schedule fitSharedRows(Schedule schedule, const PackedWeight &weight) {
  int64_t &rows = schedule["rows"], &panels = schedule["panels"], &ahead = schedule["ahead"];
  rows = int64_t(std::bit_floor(uint64_t(std::clamp<int64_t>(rows, 64, 128))));
  bool anyWay = weight.panels % 4; // the last work item has fewer
  panels = panels >= 16 && weight.panels % 16 == 0             ? 16
           : panels >= 8 && (anyWay || weight.panels % 8 == 0) ? 8
                                                               : 4;
  schedule["row_block"] = rows;
  // A seventeenth warp would leave each of them 96 registers, too few for two operands.
  schedule["warps"] = panels == 16 ? panels : panels + 1;
  int64_t units = weight.k / fragmentK, cluster = choiceOf(schedule, "cluster", 1);
  while (units % cluster)
    --cluster;
  schedule["cluster"] = cluster;
  // With fewer the registers of a left operand would be loaded while its product is under way.
  ahead = std::max<int64_t>(ahead, 2);
  int64_t sumStages = llvm::divideCeil(sumPitch(panels) * 4, fragmentK * 2); // that have the bytes
  schedule["stages"] = std::max(choiceOf(schedule, "stages"), sumStages);
  return schedule;
}

namespace {

class SharedProduct {
public:
  SharedProduct(KernelBuilder &kb, const Product &product)
      : kb(kb), product(product), shape(product.weight.shape), rows(product.schedule.at("rows")),
        panels(product.schedule.at("panels")), ahead(product.schedule.at("ahead")),
        stages(product.schedule.at("stages")), units(shape.k / fragmentK),
        each(units / kb.cluster()), parts(rowParts(product.schedule)), uses(each * parts),
        loadsApart(product.schedule.at("warps") > panels),
        overlaps(shape.encoding != m3::Encoding::BF16) {}

  void emit(const RowEpilogue &epilogue) {
    kb.when(kb.less(product.rowBegin, product.rowEnd), [&] {
      ring = kb.ring(stages, {rows, fragmentK}, bf16Codes(kb.builder().getContext()), panels);
      Value sums = tile::RingMemoryOp::create(
          kb.builder(), kb.view({1, rows, sumPitch(panels)}, kb.f32Type(), tile::Space::Shared),
          ring);
      rank = kb.clusterRank();
      auto storeParts = [&] {
        if (!loadsApart)
          return multiply(sums);
        kb.roles([&] {
          kb.role("multiply", {panels, 0}, [&] { multiply(sums); });
          kb.role("load", {1, 0}, [&] { load(); });
        });
      };
      if (kb.cluster() == 1) {
        kb.barrier(); // the ring's barriers are there
        storeParts();
        kb.barrier();
        return finishRows(sums, epilogue);
      }
      auto finish = [&](Value sum, Value row) {
        sum = unscaledSums(kb, shape, sum);
        epilogue.store(sum, row, epilogue.loadFor(row, sum));
      };
      addParts(kb, product, sums, product.rowBegin, storeParts, finish);
    });
  }

private:
  /// The i-th unit of 64 k of this work item.
  Value unit(Value i) { return kb.add(kb.mul(i, kb.cluster()), rank); }
  /// The stage of use `i` of the ring, among those of a tile of rows; the last part comes first.
  Value stageOf(Value i) {
    if (parts == 1)
      return unit(i);
    Value part = kb.sub(kb.index(parts - 1), kb.rem(i, parts));
    return kb.add(kb.mul(part, units), unit(kb.div(i, parts)));
  }

  /// A row in each warp that multiplies; of a few that follow each other all reads come before the
  /// first store. The loader has no part in it: it waits at the barrier before while the others
  /// meet at one of theirs, which some checkers of races take for one another.
  void finishRows(Value sums, const RowEpilogue &epilogue) {
    const int64_t together = epilogue.load ? 4 : 1, cols = panels * panelOutputs;
    Value end = kb.min(kb.add(product.rowBegin, rows), product.rowEnd), last = kb.add(end, -1);
    auto group = [&](Value first) {
      SmallVector<std::tuple<Value, Value, Values>> waiting; // row, sum, what the epilogue loaded
      for (int64_t i = 0; i < together; ++i) {
        Value row = kb.add(first, i * panels), at = kb.min(row, last);
        Value sum = kb.load(sums, {kb.index(0), kb.sub(at, product.rowBegin), kb.index(0)},
                            {1, 1, cols}, 1, cols);
        waiting.emplace_back(row, unscaledSums(kb, shape, sum), epilogue.loadFor(at, sum));
      }
      for (const auto &[row, sum, loaded] : waiting)
        kb.when(kb.less(row, end),
                [&, row = row, sum = sum, &loaded = loaded] { epilogue.store(sum, row, loaded); });
    };
    auto finish = [&] {
      kb.forLoop(kb.add(product.rowBegin, kb.warpId()), end, together * panels, group);
    };
    loadsApart ? kb.when(kb.less(kb.warpId(), kb.index(panels)), finish) : finish();
  }

  void load() {
    kb.forLoop(kb.index(0), kb.index(uses), 1, [&](Value i) { bring(i); });
  }

  void bring(Value i) {
    Value tile = product.tileOfX ? product.tileOfX : kb.div(product.rowBegin, rows);
    kb.acquire(ring, i);
    kb.fillStage(ring, i, product.x,
                 {kb.add(kb.mul(tile, units * parts), stageOf(i)), kb.index(0), kb.index(0)});
    kb.commit(ring, i);
  }

  /// Where no warp is there for it alone, the first one brings the stages: all at the start, then
  /// each as soon as the use before it was over `lag` products ago, so that it seldom waits for the
  /// other warps.
  void bringFirst() {
    if (loadsApart)
      return;
    kb.when(kb.equal(kb.warpId(), kb.index(0)), [&] {
      kb.forLoop(kb.index(0), kb.index(std::min(stages, uses)), 1, [&](Value i) { bring(i); });
    });
  }
  void bringNext(Value i) {
    constexpr int64_t lag = 3;
    if (loadsApart || stages >= uses)
      return;
    Value next = kb.add(i, stages - lag);
    Value isDue = kb.both(kb.atLeast(next, kb.index(stages)), kb.less(next, kb.index(uses)));
    kb.when(kb.both(kb.equal(kb.warpId(), kb.index(0)), isDue), [&] { bring(next); });
  }

  /// A panel in each warp. While a product is under way, the next left operand is made, in other
  /// registers, of codes that were asked for `ahead` products before.
  void multiply(Value sums) {
    bringFirst();
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
    // Of a round: left operands change places between two sets of registers, codes between `ahead`.
    const int64_t round = ahead % 2 ? 2 * ahead : ahead, whole = each / round * round;
    auto steps = [&](Value first, int64_t count, ValueRange values) {
      Values state(values.begin(), values.end());
      for (int64_t i = 0; i < count; ++i)
        step(kb.add(first, i), i % ahead, state, codesOf);
      return state;
    };
    if (whole)
      carried =
          kb.forLoop(kb.index(0), kb.index(whole), round, carried,
                     [&](Value first, ValueRange values) { return steps(first, round, values); });
    carried = steps(kb.index(whole), each - whole, carried);
    Value added = carried[0];
    if (overlaps) {
      added = await(added, 0);
      kb.release(ring, kb.index(uses - 1));
    }
    kb.barrier(); // nobody multiplies with the stages any more
    Value column = kb.mul(warp, panelOutputs);
    if (product.pairs)
      column = kb.add(kb.mul(kb.div(warp, 2), panelOutputs),
                      kb.mul(kb.rem(warp, 2), panels / 2 * panelOutputs));
    tile::StoreTransposedOp::create(kb.builder(), added, sums,
                                    ValueRange{kb.index(0), kb.index(0), column}, IntegerAttr());
  }

  Value await(Value sums, int64_t leaves) {
    return tile::MmaWaitOp::create(kb.builder(), sums.getType(), sums, leaves, StringAttr());
  }

  /// `state`: sums, the left operand of unit `i`, codes of the `ahead` ones after it, those of the
  /// next one in `slot`.
  void step(Value i, int64_t slot, Values &state, function_ref<FragmentCodes(Value)> codesOf) {
    for (int64_t part = 0; part < parts; ++part) {
      Value use = parts == 1 ? i : kb.add(kb.mul(i, parts), part);
      state[0] = add(use, slot || part, state[1], state[0]);
    }
    size_t at = 2 + size_t(slot) * codeValues();
    state[1] = dequantised(kb, shape, {state[at], product.weight.scales ? state[at + 1] : Value()});
    Values codes;
    append(codes, codesOf(kb.add(i, ahead + 1)));
    llvm::copy(codes, state.begin() + long(at));
  }

  /// The sums with the product of use `i`, which may still be under way. The product before, if it
  /// is certain that there is one, ends while this one waits for its turn.
  Value add(Value i, bool follows, Value left, Value sums) {
    Value stage = kb.wait(ring, i);
    Value added =
        tile::MmaSharedOp::create(kb.builder(), sums.getType(), left, stage, sums, StringAttr());
    added = await(added, overlaps ? 1 : 0);
    auto release = [&] { kb.release(ring, overlaps ? kb.sub(i, kb.index(1)) : i); };
    if (follows || !overlaps)
      release();
    else
      kb.when(kb.less(kb.index(0), i), release);
    bringNext(i);
    return added;
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
  const int64_t rows, panels, ahead, stages, units;
  const int64_t each;    ///< units of a work item
  const int64_t parts;   ///< of a unit, each with a stage of its own
  const int64_t uses;    ///< of the ring's stages
  const bool loadsApart; ///< a warp beside those that multiply brings the stages
  /// A product is under way while the next operand is made. Codes in BF16 are operands as they
  /// come, and ptxas (13.5) moves them to the registers of an operand before the wait for the
  /// product that still reads these; so each product ends before the next one.
  const bool overlaps;
  Value ring, rank;
};

} // namespace

void emitSharedProduct(KernelBuilder &kb, const Product &product, const RowEpilogue &epilogue) {
  SharedProduct(kb, product).emit(epilogue);
}

} // namespace m3c::kernel
