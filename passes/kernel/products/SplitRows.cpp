#include "passes/kernel/products/SplitRows.h"

#include "passes/kernel/families/Common.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

tile::ViewType splitRowsType(MLIRContext *context, int64_t width) {
  return rowsType(context, 2 * width, IntegerType::get(context, 16));
}

tile::ViewType partsOfRowsType(MLIRContext *context, int64_t width) {
  return rowsType(context, width, IntegerType::get(context, 16));
}

void storeRow(KernelBuilder &kb, Value tile, Value y, Value row, Value col, int64_t width) {
  int64_t cols = cast<tile::TileType>(tile.getType()).getCols();
  kb.storeF32(tile, y, {row, col}, {1, cols});
  if (cast<tile::ViewType>(y.getType()).getShape()[1] != 2 * width)
    return;
  Value rest = kb.map(tile, 1, cols, [&](ValueRange args) {
    return kb.subf(args[0], kb.round(args[0], tile::Format::BF16));
  });
  kb.storeF32(rest, y, {row, kb.add(col, width)}, {1, cols});
}

Value splitRows(StepLowering &step, RowBuffer x, int64_t width, int64_t countIndex,
                StringRef label) {
  if (x.isSplit)
    return x.buffer;
  Schedule schedule = rowSchedule(step, width, 16);
  std::string name =
      formatv("split_rows_{0}{1}{2}", width, countIndex ? "_logits" : "", spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = step.module.getContext();
    KernelBuilder kb(
        step.module, name, "split_rows", schedule,
        {countsType(context), rowsType(context, width), splitRowsType(context, width)});
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(countIndex)})), [&] {
      eachChunkByWarp(kb, width, chunkOf(schedule), [&](Value col, int64_t cols) {
        Value values = kb.loadF32(kb.parameter(1), {row, col}, {1, cols}, 1, cols);
        storeRow(kb, values, kb.parameter(2), row, col, width);
      });
    });
    return kb.finish();
  });
  Value split =
      step.scratchRows("split_rows", 2 * width, IntegerType::get(step.module.getContext(), 16))
          .buffer;
  step.launch(kernel, {read(step.batch(planir::BatchArray::Counts)), read(x.buffer), write(split)},
              {{step.rows, 0}}, (label + ".split_rows").str());
  return split;
}

} // namespace m3c::kernel
