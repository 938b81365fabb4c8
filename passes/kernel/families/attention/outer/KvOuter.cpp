#include "passes/kernel/families/attention/outer/KvOuter.h"

#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/attention/matrix/AttentionMatrix.h"
#include "passes/kernel/families/attention/matrix/AttentionSteps.h"
#include "passes/kernel/families/attention/matrix/AttentionSums.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

//===- Sums -----------------------------------------------------------------------------------===//

tile::ViewType PageMeans::valuesType(MLIRContext *context, const MatrixUnit &unit,
                                     const AttentionShape &shape) {
  return tile::ViewType::get(context, {ShapedType::kDynamic, shape.dims / 16, unit.lanes, 8},
                             IntegerType::get(context, 16), tile::Space::Global);
}
tile::ViewType PageMeans::rowsType(MLIRContext *context) {
  return tile::ViewType::get(context, {ShapedType::kDynamic, 2, attentionHeads},
                             Float32Type::get(context), tile::Space::Global);
}

namespace {

class PageSums {
public:
  PageSums(KernelBuilder &kb, const KvOuter &outer, const MatrixUnit &unit, const PageMeans &means)
      : kb(kb), m(kb, unit), steps(kb, m, outer.shape), shape(outer.shape), means(means) {}

  /// The pages of slots base … base + count − 1, half of the columns. Some pages are under way
  /// together.
  void emit(Value base, Value count, Value half, Value out, Value queryRow) {
    constexpr int64_t ahead = 4;
    const int64_t columns = shape.dims / 2;
    Value last = kb.add(count, -1);
    auto slotOf = [&](Value i) { return kb.add(base, kb.min(i, last)); };
    Value largest = m.fill(noScore, m.rows());
    for (int64_t i = 0; i < shape.selected; ++i)
      largest = kb.map({largest, loadRows(slotOf(kb.index(i)), 0)}, m.rows(),
                       [&](ValueRange args) { return kb.maxf(args[0], args[1]); });
    Values start = {m.fill(0, m.acc(columns)), m.fill(0, m.rows())};
    Values sums =
        kb.forLoop(kb.index(0), count, ahead, start, [&](Value first, ValueRange carried) {
          SmallVector<Value> loaded, shares;
          for (int64_t i = 0; i < ahead; ++i) {
            Value number = kb.add(first, i), slot = slotOf(number);
            loaded.push_back(loadMean(slot, half));
            shares.push_back(share(slot, largest, kb.less(number, count)));
          }
          Value values = carried[0], weights = carried[1];
          for (auto [mean, part] : llvm::zip(loaded, shares)) {
            Value terms = tile::FromOperandOp::create(kb.builder(), m.acc(columns), mean);
            values = kb.map({terms, part, values}, m.acc(columns),
                            [&](ValueRange args) { return kb.fmaf(args[0], args[1], args[2]); });
            weights = kb.map({part, weights}, m.rows(),
                             [&](ValueRange args) { return kb.addf(args[0], args[1]); });
          }
          return Values{values, weights};
        });
    Value group = kb.mul(half, columns / m.unit.columns);
    steps.store(steps.mean(sums[0], sums[1]), out, queryRow, group);
  }

private:
  Value loadRows(Value slot, int64_t which) {
    return tile::LoadOp::create(kb.builder(), m.rows(), means.rows,
                                ValueRange{slot, kb.index(which), kb.index(0)},
                                ArrayRef<int64_t>{1, 1, 16});
  }
  Value loadMean(Value slot, Value half) {
    auto type = kb.fragment(16, shape.dims / 2, kb.builder().getF16Type(), tile::Layout::MmaA);
    ArrayRef<int64_t> box = cast<tile::ViewType>(means.values.getType()).getShape();
    return tile::LoadOp::create(
        kb.builder(), type, means.values,
        ValueRange{slot, kb.mul(half, box[1] / 2), kb.index(0), kb.index(0)},
        ArrayRef<int64_t>{1, box[1] / 2, box[2], box[3]});
  }
  /// What of the weights of all pages a page has, against the largest score; nothing where it does
  /// not count.
  Value share(Value slot, Value largest, Value counts) {
    return kb.map({loadRows(slot, 0), largest, loadRows(slot, 1)}, m.rows(), [&](ValueRange args) {
      Value power = kb.exp2f(kb.mulf(kb.subf(args[0], args[1]), kb.f32(steps.scaleBits())));
      return kb.selectf(counts, kb.mulf(power, args[2]), kb.f32(0));
    });
  }

  KernelBuilder &kb;
  MatrixTiles m;
  AttentionSteps steps;
  const AttentionShape &shape;
  PageMeans means;
};

} // namespace

void emitPageSums(KernelBuilder &kb, const KvOuter &outer, const MatrixUnit &unit, BatchRows &batch,
                  Value selection, const PageMeans &means, Value out, const RowsAtOnce &rows) {
  const AttentionShape &shape = outer.shape;
  Value item = kb.add(kb.mul(kb.blockId(tile::Axis::X), kb.warps()), kb.warpId());
  Value local = kb.div(item, 2), half = kb.rem(item, 2);
  Value row = kb.add(local, rows.first), kvHead = kb.blockId(tile::Axis::Y);
  kb.when(kb.both(kb.less(local, rows.most), kb.less(row, batch.rows)), [&] {
    auto list = [&](Value row) {
      return kb.mul(kb.add(kb.mul(row, shape.kvHeads), kvHead), shape.selected);
    };
    Value choices = loadChoices(kb, selection, list(row), shape.selected);
    Value count = countChoices(kb, choices, shape.selected);
    Value queryRow = kb.add(kb.mul(row, shape.heads), kb.mul(kvHead, shape.group()));
    PageSums(kb, outer, unit, means).emit(list(local), count, half, out, queryRow);
  });
}

//===- Launches -------------------------------------------------------------------------------===//

namespace {

class KvOuterLaunches {
public:
  KvOuterLaunches(StepLowering &step, const KvOuter &outer, const Schedule &schedule,
                  const AttentionOperands &operands)
      : step(step), outer(outer), shape(outer.shape), schedule(schedule), operands(operands),
        unit(step.chip.matrix), context(step.module.getContext()), parts(schedule.at("parts")),
        atOnce(std::min(schedule.at("rows_at_once"), step.rows)),
        name(attentionName(outer.cache, shape, {operands.query.element, operands.mean.element},
                           named(schedule))) {}

  void launch() {
    const int64_t slots = atOnce * shape.kvHeads * shape.selected;
    auto list = [&](StringRef what) {
      return step.scratch(what, 0, PageLists::blockBytes(outer),
                          PageLists::fixedBytes(outer, atOnce));
    };
    entries = list("page_entries");
    pages = list("page_numbers");
    seen = list("page_keys");
    tiles = step.scratch("page_tiles", 0, 0, shape.kvHeads * 4);
    counts = step.scratch("page_counts", 0, PageLists::countBytes(outer, atOnce), 0);
    values = step.scratch("page_means", 0, 0, slots * attentionHeads * shape.dims * 2);
    rows = step.scratch("page_rows", 0, 0, slots * attentionHeads * 2 * 4);
    most = number(atOnce);
    for (int64_t first = 0; first < step.rows; first += atOnce)
      launchFrom(first);
  }

private:
  /// Kernels do not depend on how many rows go at once.
  static Schedule named(Schedule schedule) {
    schedule.erase("rows_at_once");
    return schedule;
  }
  Value number(int64_t value) {
    return planir::ScalarOp::create(step.bucket, step.module.getLoc(),
                                    IntegerType::get(context, 64), uint64_t(value));
  }
  Type words() { return listType(context); }
  Type chosen() {
    return rowsType(context, shape.kvHeads * shape.selected, IntegerType::get(context, 32));
  }
  Type queries() { return rowsType(context, shape.dims, operands.query.element); }

  void launchFrom(int64_t first) {
    Value start = number(first);
    const int64_t count = std::min(atOnce, step.rows - first);
    const planir::GridDim groups = {0, PageLists::blocksTogether},
                          rowParts = {int64_t(llvm::divideCeil(atOnce, PageLists::rowsTogether)),
                                      0};
    SmallVector<LaunchArgument> arguments = BatchRows::arguments(step);
    arguments.append({read(operands.selection), write(counts), read(start), read(most)});
    step.launch(countKernel(), arguments, {groups, {shape.kvHeads, 0}, rowParts},
                operands.label + ".counts");

    arguments = BatchRows::arguments(step);
    arguments.append({read(operands.selection), read(counts), write(entries), write(pages),
                      write(seen), write(tiles), read(start), read(most)});
    step.launch(listKernel(), arguments, {groups, {shape.kvHeads, 0}, rowParts},
                operands.label + ".pages");

    arguments = BatchRows::arguments(step);
    arguments.append({read(entries), read(pages), read(seen), read(tiles),
                      read(operands.query.buffer), read(step.pool(operands.poolOffset)),
                      write(values), write(rows), read(start), read(most)});
    step.launch(productKernel(), arguments, {{parts, 0}, {shape.kvHeads, 0}}, operands.label);

    arguments = BatchRows::arguments(step);
    arguments.append({read(operands.selection), read(values), read(rows),
                      write(operands.mean.buffer), read(start), read(most)});
    int64_t items = int64_t(llvm::divideCeil(2 * count, sumWarps));
    step.launch(sumKernel(), arguments, {{items, 0}, {shape.kvHeads, 0}}, operands.label + ".sum");
  }

  tile::KernelOp
  build(StringRef part, const Schedule &choices, ArrayRef<Type> types,
        function_ref<void(KernelBuilder &kb, BatchRows &batch, const RowsAtOnce &rows)> emit) {
    std::string own = ("attention_" + part + StringRef(name).drop_front(9)).str();
    return step.kernel(own, [&] {
      SmallVector<Type> all = BatchRows::parameterTypes(context);
      llvm::append_range(all, types);
      all.append(2, IndexType::get(context)); // RowsAtOnce
      KernelBuilder kb(step.module, own, "attention", choices, all);
      BatchRows batch(kb);
      emit(kb, batch,
           {kb.parameter(unsigned(all.size()) - 2), kb.parameter(unsigned(all.size()) - 1)});
      return kb.finish();
    });
  }

  PageLists::Views views(KernelBuilder &kb, unsigned first) {
    return {kb.parameter(first), kb.parameter(first + 1), kb.parameter(first + 2),
            kb.parameter(first + 3), Value()};
  }

  tile::KernelOp countKernel() {
    return build("counts", {{"warps", 8}}, {chosen(), words()},
                 [&](KernelBuilder &kb, BatchRows &batch, const RowsAtOnce &rows) {
                   PageLists::Views views;
                   views.counts = kb.parameter(5);
                   PageLists(kb, outer, batch, rows, views, kb.blockId(tile::Axis::Y))
                       .count(kb.parameter(4), kb.blockId(tile::Axis::X),
                              kb.blockId(tile::Axis::Z));
                 });
  }
  tile::KernelOp listKernel() {
    return build("pages", {{"warps", 8}}, {chosen(), words(), words(), words(), words(), words()},
                 [&](KernelBuilder &kb, BatchRows &batch, const RowsAtOnce &rows) {
                   PageLists::Views lists = views(kb, 6);
                   lists.counts = kb.parameter(5);
                   PageLists(kb, outer, batch, rows, lists, kb.blockId(tile::Axis::Y))
                       .list(kb.parameter(4), kb.blockId(tile::Axis::X), kb.blockId(tile::Axis::Z));
                 });
  }
  tile::KernelOp productKernel() {
    Schedule choices = schedule;
    choices["warps"] = outer.together;
    return build("products", choices,
                 {words(), words(), words(), words(), queries(), bytesType(context),
                  PageMeans::valuesType(context, unit, shape), PageMeans::rowsType(context)},
                 [&](KernelBuilder &kb, BatchRows &batch, const RowsAtOnce &rows) {
                   PageLists lists(kb, outer, batch, rows, views(kb, 4), kb.blockId(tile::Axis::Y));
                   emitPageProducts(kb, outer, unit, lists, kb.parameter(8), kb.parameter(9),
                                    {kb.parameter(10), kb.parameter(11)}, rows.first, parts);
                 });
  }
  tile::KernelOp sumKernel() {
    return build("sum", {{"warps", sumWarps}, {"residents", 2}},
                 {words(), PageMeans::valuesType(context, unit, shape),
                  PageMeans::rowsType(context),
                  rowsType(context, shape.dims, operands.mean.element)},
                 [&](KernelBuilder &kb, BatchRows &batch, const RowsAtOnce &rows) {
                   emitPageSums(kb, outer, unit, batch, kb.parameter(4),
                                {kb.parameter(5), kb.parameter(6)}, kb.parameter(7), rows);
                 });
  }

  static constexpr int64_t sumWarps = 8; ///< half of a row in each

  StepLowering &step;
  const KvOuter &outer;
  const AttentionShape &shape;
  const Schedule &schedule;
  const AttentionOperands &operands;
  const MatrixUnit &unit;
  MLIRContext *context;
  const int64_t parts, atOnce;
  const std::string name;
  Value most, counts, entries, pages, seen, tiles, values, rows;
};

} // namespace

bool kvOuterServes(const AttentionShape &shape, m3::CacheType cache, Type query, Type out) {
  return shape.selected && query.isInteger(16) && matrixAttentionServes(shape, cache, query, out);
}

LogicalResult emitKvOuterAttention(StepLowering &step, const CachePages &cache,
                                   const AttentionShape &shape, const Schedule &schedule,
                                   const AttentionOperands &operands) {
  const int64_t together = schedule.at("consumers"), atOnce = schedule.at("rows_at_once");
  if ((together != 4 && together != 8 && together != 16) || atOnce < 1 || schedule.at("parts") < 1)
    return emitError(step.module.getLoc())
           << "attention with kv_outer, consumers=" << together << ", rows_at_once=" << atOnce
           << " and parts=" << schedule.at("parts")
           << ": 4, 8 or 16 and positive numbers are needed; change them by --schedule, or "
           << "attention.kv_outer=0";
  KvOuter outer = {cache, shape, together, isOn(schedule, "ahead")};
  KvOuterLaunches(step, outer, schedule, operands).launch();
  return success();
}

} // namespace m3c::kernel
