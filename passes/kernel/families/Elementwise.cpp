// Families of single operations that a fusion would have taken: a plan stays right with any fusion
// switched off (`m3c compile --disable-pass`), it only launches more.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/cache/CacheSlots.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

/// One work item per row: `body` computes 16 (or fewer) columns of the result from those of the
/// inputs.
static void emitColumns(StepLowering &step, StringRef operation, ArrayRef<Value> inputs,
                        Value result, StringRef label,
                        function_ref<Value(KernelBuilder &kb, ArrayRef<Value> tiles)> body) {
  int64_t width = widthOf(result);
  SmallVector<Type> types = {countsType(step.module.getContext())}, elements;
  for (Value tensor : llvm::concat<Value>(SmallVector<Value>(inputs), SmallVector<Value>{result})) {
    types.push_back(rowsType(tensor));
    elements.push_back(storedElement(tensor));
  }
  std::string name = (operation + spellElements(elements)).str();
  tile::KernelOp kernel = step.kernel(name, [&] {
    KernelBuilder kb(step.module, name, "elementwise", {}, types);
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      eachChunk(kb, width, 16, [&](Value col, int64_t cols) {
        SmallVector<Value> tiles;
        for (size_t i = 0; i < inputs.size(); ++i)
          tiles.push_back(kb.loadF32(kb.parameter(1 + i), {row, col}, {1, cols}, 1, cols));
        kb.storeF32(body(kb, tiles), kb.parameter(1 + inputs.size()), {row, col}, {1, cols});
      });
    });
    return kb.finish();
  });
  SmallVector<LaunchArgument> arguments = {
      {step.batch(planir::BatchArray::Counts), planir::Access::Read}};
  for (Value input : inputs)
    arguments.push_back({step.bufferOf(input), planir::Access::Read});
  arguments.push_back({step.makeBuffer(result, label), planir::Access::Write});
  step.launch(kernel, arguments, {{step.rows, 0}}, label);
}

static int64_t colsOf(Value tile) { return cast<tile::TileType>(tile.getType()).getCols(); }

LogicalResult lowerAdd(Operation *op, StepLowering &step) {
  auto add = cast<arith::AddFOp>(op);
  std::string name = formatv("add_{0}", widthOf(add.getResult()));
  emitColumns(step, name, {add.getLhs(), add.getRhs()}, add.getResult(), "add",
              [](KernelBuilder &kb, ArrayRef<Value> tiles) {
                return kb.map(tiles, 1, colsOf(tiles[0]),
                              [&](ValueRange args) { return kb.addf(args[0], args[1]); });
              });
  return success();
}

/// The same values as other elements: to F32, or rounded to BF16.
LogicalResult lowerConvert(Operation *op, StepLowering &step) {
  Value result = op->getResult(0);
  emitColumns(step, formatv("convert_{0}", widthOf(result)).str(), op->getOperand(0), result,
              "convert", [](KernelBuilder &, ArrayRef<Value> tiles) { return tiles[0]; });
  return success();
}

LogicalResult lowerSwiglu(Operation *op, StepLowering &step) {
  auto swiglu = cast<m3::SwigluOp>(op);
  double alpha = swiglu.getAlpha().convertToDouble(), limit = swiglu.getLimit().convertToDouble();
  std::string name = formatv("swiglu_{0}_{1}_{2}", widthOf(swiglu.getResult()),
                             int64_t(alpha * 1e6), int64_t(limit * 1e6));
  emitColumns(step, name, {swiglu.getGate(), swiglu.getUp()}, swiglu.getResult(), "swiglu",
              [&](KernelBuilder &kb, ArrayRef<Value> tiles) {
                return emitSwiglu(kb, tiles[0], tiles[1], alpha, limit);
              });
  return success();
}

LogicalResult lowerQuantize(Operation *op, StepLowering &step) {
  auto quantize = cast<m3::QuantizeOp>(op);
  bool e4m3 = quantize.getGrid() == m3::Grid::E4M3;
  if (!e4m3 && quantize.getGrid() != m3::Grid::BF16)
    return op->emitError("no kernel rounds activations to the grid ")
           << m3::stringifyGrid(quantize.getGrid()) << "; bf16 and e4m3 are there";
  std::string name = formatv("quantize_{0}_{1}", m3::stringifyGrid(quantize.getGrid()),
                             widthOf(quantize.getResult()));
  emitColumns(step, name, {quantize.getX()}, quantize.getResult(), "quantize",
              [&](KernelBuilder &kb, ArrayRef<Value> tiles) {
                return kb.map(tiles, 1, colsOf(tiles[0]), [&](ValueRange args) {
                  Value rounded = kb.round(args[0], tile::Format::BF16);
                  return e4m3 ? kb.round(rounded, tile::Format::E4M3) : rounded;
                });
              });
  return success();
}

/// One work item per row; every head of it through `body(kb, head, row)` in an on-chip buffer
/// [1, head size] of f32.
static void emitHeads(StepLowering &step, StringRef operation, StringRef family, Value x,
                      Value result, int64_t heads, ArrayRef<Type> extraTypes,
                      ArrayRef<LaunchArgument> extraArguments, StringRef label,
                      function_ref<void(KernelBuilder &kb, Value head, Value row)> body) {
  int64_t dims = widthOf(result) / heads;
  SmallVector<Type> elements = {storedElement(x), storedElement(result)};
  std::string name = (operation + spellElements(elements)).str();
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = step.module.getContext();
    SmallVector<Type> types = {countsType(context), rowsType(context, dims, elements[0]),
                               rowsType(context, dims, elements[1])};
    llvm::append_range(types, extraTypes);
    KernelBuilder kb(step.module, name, family, {}, types);
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      Value head = kb.alloc({1, dims}, kb.f32Type()), zero = kb.index(0);
      kb.forLoop(zero, kb.index(heads), 1, [&](Value h) {
        Value at = kb.add(kb.mul(row, heads), h);
        eachChunk(kb, dims, 16, [&](Value d, int64_t cols) {
          kb.store(kb.loadF32(kb.parameter(1), {at, d}, {1, cols}, 1, cols), head, {zero, d},
                   {1, cols});
        });
        body(kb, head, row);
        eachChunk(kb, dims, 16, [&](Value d, int64_t cols) {
          kb.storeF32(kb.load(head, {zero, d}, {1, cols}, 1, cols), kb.parameter(2), {at, d},
                      {1, cols});
        });
      });
    });
    return kb.finish();
  });
  SmallVector<LaunchArgument> arguments = {
      {step.batch(planir::BatchArray::Counts), planir::Access::Read},
      {step.bufferOf(x), planir::Access::Read},
      {step.makeBuffer(result, label), planir::Access::Write}};
  llvm::append_range(arguments, extraArguments);
  step.launch(kernel, arguments, {{step.rows, 0}}, label);
}

LogicalResult lowerHeadNorm(Operation *op, StepLowering &step) {
  auto norm = cast<m3::HeadNormOp>(op);
  int64_t heads = norm.getHeads(), dims = widthOf(norm.getResult()) / heads;
  double eps = norm.getEps().convertToDouble();
  std::string name =
      formatv("head_norm_{0}x{1}_{2}", heads, dims, int64_t(std::lround(-1e3 * std::log10(eps))));
  Value weight = step.weight(step.vector(step.weightOp(norm.getWeight())));
  emitHeads(step, name, "head_norm", norm.getX(), norm.getResult(), heads,
            {vectorType(op->getContext(), dims)}, {{weight, planir::Access::Read}},
            norm.getWeight(), [&](KernelBuilder &kb, Value head, Value) {
              Value zero = kb.index(0);
              emitNormRow(kb, head, zero, kb.parameter(3), head, zero, dims, eps);
            });
  return success();
}

LogicalResult lowerRope(Operation *op, StepLowering &step) {
  auto rope = cast<m3::RopeOp>(op);
  int64_t heads = rope.getHeads(), dims = widthOf(rope.getResult()) / heads;
  int64_t rotary = widthOf(rope.getTable());
  std::string name = formatv("rope_{0}x{1}_{2}", heads, dims, rotary);
  emitHeads(step, name, "rope", rope.getX(), rope.getResult(), heads,
            {rowsType(op->getContext(), rotary)},
            {{step.bufferOf(rope.getTable()), planir::Access::Read}}, "rope",
            [&](KernelBuilder &kb, Value head, Value row) {
              emitRotate(kb, head, kb.index(0), kb.parameter(3), row, rotary);
            });
  return success();
}

//===- Cache ----------------------------------------------------------------------------------===//

/// Parameters: counts, positions, sequence of row, page table, pool at the layer's slots, x [rows,
/// heads·D]. Slot of head h: first + h·step.
static tile::KernelOp buildCacheWrite(StepLowering &step, StringRef name, m3::CacheStorage storage,
                                      int64_t heads, int64_t dims, int64_t first, int64_t slotStep,
                                      bool values, planir::CacheOp cache, Type element) {
  MLIRContext *context = step.module.getContext();
  KernelBuilder kb(step.module, name, "cache_write", {},
                   {countsType(context), listType(context), listType(context), listType(context),
                    bytesType(context), rowsType(context, heads * dims, element)});
  Value row = kb.blockId(tile::Axis::X);
  kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
    Value position = kb.loadIndex(kb.parameter(1), {row});
    Value stride = kb.loadIndex(kb.parameter(0), {kb.index(3)});
    Value block = kb.add(kb.mul(kb.loadIndex(kb.parameter(2), {row}), stride),
                         kb.div(position, m3::blockTokens));
    Value page = kb.mul(kb.loadIndex(kb.parameter(3), {block}), int64_t(cache.getPageBytes()));
    Value token = kb.rem(position, m3::blockTokens);
    kb.forLoop(kb.index(0), kb.index(heads), 1, [&](Value head) {
      Value slot = kb.add(kb.mul(head, slotStep), first);
      Value offset = kb.add(page, kb.mul(slot, int64_t(cache.getSlotBytes())));
      for (int64_t group = 0; group < dims / 16; ++group) {
        Value col = kb.add(kb.mul(head, dims), 16 * group);
        Value tile = kb.loadF32(kb.parameter(5), {row, col}, {1, 16}, 1, 16);
        storeSlotGroups(kb, storage, dims, kb.parameter(4), offset, token, group, tile, values);
      }
    });
  });
  return kb.finish();
}

LogicalResult lowerCacheWrite(Operation *op, StepLowering &step) {
  auto write = cast<m3::CacheWriteOp>(op);
  auto cache = *step.module.getOps<planir::CacheOp>().begin();
  auto type = cast<m3::CacheType>(write.getCache().getType());
  int64_t layer = write.getLayer();
  auto emit = [&](Value lane, StringRef laneName, int64_t heads, int64_t dims, int64_t first,
                  int64_t slotStep, bool values, int64_t poolOffset) {
    std::string name =
        formatv("cache_write_{0}_{1}_{2}x{3}_page{4}{5}", m3::stringifyCacheStorage(type.getKv()),
                laneName, heads, dims, cache.getPageBytes(), spellElements(storedElement(lane)));
    tile::KernelOp kernel = step.kernel(name, [&] {
      return buildCacheWrite(step, name, type.getKv(), heads, dims, first, slotStep, values, cache,
                             storedElement(lane));
    });
    SmallVector<LaunchArgument> arguments;
    for (planir::BatchArray array :
         {planir::BatchArray::Counts, planir::BatchArray::Positions,
          planir::BatchArray::SequenceOfRow, planir::BatchArray::PageTable})
      arguments.push_back({step.batch(array), planir::Access::Read});
    arguments.push_back({step.pool(poolOffset), planir::Access::ReadWrite});
    arguments.push_back({step.bufferOf(lane), planir::Access::Read});
    step.launch(kernel, arguments, {{step.rows, 0}},
                formatv("layers.{0}.cache_write", layer).str());
  };
  int64_t heads = type.getKvHeads(), dims = type.getHeadDim();
  emit(write.getKeys(), "k", heads, dims, 0, 2, false, cache.getKvOffsets()[layer]);
  emit(write.getValues(), "v", heads, dims, 1, 2, true, cache.getKvOffsets()[layer]);
  if (write.getIndexKeys())
    emit(write.getIndexKeys(), "index", 1, type.getIndexDim(), 0, 1, false,
         cache.getIndexOffsets()[layer]);
  return success();
}

} // namespace m3c::kernel
