// Families that work row by row: embedding, norm, gathered rows, rotary table.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/products/Project.h"
#include "passes/kernel/families/products/QkvInsert.h"
#include "passes/kernel/products/Product.h"
#include "passes/kernel/products/SplitRows.h"
#include "runtime/base/Formats.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

//===- Embedding ------------------------------------------------------------------------------===//

LogicalResult lowerEmbed(Operation *op, StepLowering &step) {
  auto embed = cast<m3::EmbedOp>(op);
  m3::WeightOp weight = step.weightOp(embed.getWeight());
  int64_t width = widthOf(embed.getRows());
  bool wide = weight.weightType().getEncoding() == m3::Encoding::F32;
  if (!wide && weight.weightType().getEncoding() != m3::Encoding::BF16)
    return op->emitError("the embedding table is stored as ")
           << m3::stringifyEncoding(weight.weightType().getEncoding()) << ", bf16 or f32 expected";
  // Nothing is added, so the schedule is that of the elements that are read.
  Schedule schedule = rowSchedule(step, width,
                                  wide ? Type(Float32Type::get(op->getContext()))
                                       : Type(BFloat16Type::get(op->getContext())));
  std::string name = formatv("embed_{0}_{1}{2}{3}", wide ? "f32" : "bf16", width,
                             spellElements(storedElement(embed.getRows())), spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = op->getContext();
    Type stored = wide ? Type(Float32Type::get(context)) : Type(IntegerType::get(context, 16));
    KernelBuilder kb(step.module, name, "embed", schedule,
                     {countsType(context), listType(context), rowsType(context, width, stored),
                      rowsType(embed.getRows())});
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      Value token = kb.loadIndex(kb.parameter(1), {row});
      eachChunkByWarp(kb, width, chunkOf(schedule), [&](Value col, int64_t cols) {
        Value values = kb.loadF32(kb.parameter(2), {token, col}, {1, cols}, 1, cols);
        kb.storeF32(values, kb.parameter(3), {row, col}, {1, cols});
      });
    });
    return kb.finish();
  });
  step.launch(kernel,
              {{step.batch(planir::BatchArray::Counts), planir::Access::Read},
               {step.batch(planir::BatchArray::TokenIds), planir::Access::Read},
               {step.weight(step.raw(weight)), planir::Access::Read},
               {step.makeBuffer(embed.getRows(), "hidden"), planir::Access::Write}},
              {{step.rows, 0}}, "embed");
  return success();
}

//===- Rotary table ---------------------------------------------------------------------------===//

LogicalResult lowerRopeTable(Operation *op, StepLowering &step) {
  auto rope = cast<m3::RopeTableOp>(op);
  int64_t rotary = rope.getRotary(), half = rotary / 2;
  double theta = rope.getTheta().convertToDouble();
  std::string name = formatv("rope_table_{0}_{1}", rotary, int64_t(theta));
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = op->getContext();
    KernelBuilder kb(step.module, name, "rope_table", {},
                     {countsType(context), listType(context), rowsType(context, rotary)});
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      Value position = kb.loadScalar(kb.parameter(1), {row}, kb.i32Type());
      auto &b = kb.builder();
      Value p = arith::SIToFPOp::create(b, b.getF32Type(), position);
      // One rounding of the frequency, one of the angle (docs/model.md).
      Value angles = kb.map(kb.iota(half), 1, half, [&](ValueRange args) {
        Value frequency = kb.f32(formats::ropeFrequency(theta, 0, rotary));
        for (int64_t i = 1; i < half; ++i)
          frequency = kb.selectf(kb.equal(args[0], kb.i32(i)),
                                 kb.f32(formats::ropeFrequency(theta, i, rotary)), frequency);
        return kb.mulf(p, frequency);
      });
      auto put = [&](int64_t column, function_ref<Value(Value)> of) {
        Value values = kb.map(angles, 1, half, [&](ValueRange args) { return of(args[0]); });
        kb.store(values, kb.parameter(2), {row, kb.index(column)}, {1, half});
      };
      put(0, [&](Value x) { return Value(math::CosOp::create(b, x)); });
      put(half, [&](Value x) { return Value(math::SinOp::create(b, x)); });
    });
    return kb.finish();
  });
  step.launch(kernel,
              {{step.batch(planir::BatchArray::Counts), planir::Access::Read},
               {step.batch(planir::BatchArray::Positions), planir::Access::Read},
               {step.makeBuffer(rope.getTable(), "rope_table"), planir::Access::Write}},
              {{step.rows, 0}}, "rope_table");
  return success();
}

//===- Norm -----------------------------------------------------------------------------------===//

void emitNorm(StepLowering &step, Value x, StringRef weight, double eps, Value result) {
  int64_t width = widthOf(x), bits = handedBits(result.getDefiningOp());
  for (Operation *reader : result.getUsers()) // FP32 rows of products that hand on BF16
    bits = std::min(bits, handedBits(reader));
  Schedule schedule = rowSchedule(step, width, bits);
  bool isSplit = !result.use_empty() && llvm::all_of(result.getUsers(), [&](Operation *reader) {
    return readsSplitRows(reader, step);
  });
  if (isSplit)
    step.setSplit(result);
  std::string name =
      formatv("norm_{0}_{1}{2}{3}{4}", width, int64_t(std::lround(-1e3 * std::log10(eps))),
              spellElements({storedElement(x), storedElement(result)}), isSplit ? "_split" : "",
              spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = step.module.getContext();
    KernelBuilder kb(step.module, name, "norm", schedule,
                     {countsType(context), rowsType(x), vectorType(context, width),
                      isSplit ? splitRowsType(context, width) : rowsType(result)});
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      if (kb.warps() > 1)
        emitNormRowByWarps(kb, kb.parameter(1), row, kb.parameter(2), kb.parameter(3), row, width,
                           eps, chunkOf(schedule));
      else
        emitNormRow(kb, kb.parameter(1), row, kb.parameter(2), kb.parameter(3), row, width, eps);
    });
    return kb.finish();
  });
  step.launch(kernel,
              {{step.batch(planir::BatchArray::Counts), planir::Access::Read},
               {step.bufferOf(x), planir::Access::Read},
               {step.weight(step.vector(step.weightOp(weight))), planir::Access::Read},
               {step.makeBuffer(result, "normed"), planir::Access::Write}},
              {{step.rows, 0}}, weight);
}

LogicalResult lowerNorm(Operation *op, StepLowering &step) {
  auto norm = cast<m3::NormOp>(op);
  emitNorm(step, norm.getX(), norm.getWeight(), norm.getEps().convertToDouble(), norm.getResult());
  return success();
}

//===- Rows whose logits are wanted -----------------------------------------------------------===//

LogicalResult lowerGatherRows(Operation *op, StepLowering &step) {
  auto gather = cast<m3::GatherRowsOp>(op);
  int64_t width = widthOf(gather.getX());
  Type element = storedElement(gather.getX());
  Schedule schedule = rowSchedule(step, width, element);
  std::string name =
      formatv("gather_rows_{0}{1}{2}", width, spellElements(element), spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = op->getContext();
    KernelBuilder kb(step.module, name, "gather_rows", schedule,
                     {countsType(context), listType(context), rowsType(context, width, element),
                      rowsType(context, width, element)});
    Value to = kb.blockId(tile::Axis::X);
    kb.when(kb.less(to, kb.loadIndex(kb.parameter(0), {kb.index(2)})), [&] {
      Value from = kb.loadIndex(kb.parameter(1), {to});
      eachChunkByWarp(kb, width, chunkOf(schedule), [&](Value col, int64_t cols) {
        Value v = kb.load(kb.parameter(2), {from, col}, {1, cols}, 1, cols);
        kb.store(v, kb.parameter(3), {to, col}, {1, cols});
      });
    });
    return kb.finish();
  });
  step.launch(kernel,
              {{step.batch(planir::BatchArray::Counts), planir::Access::Read},
               {step.batch(planir::BatchArray::LogitRows), planir::Access::Read},
               {step.bufferOf(gather.getX()), planir::Access::Read},
               {step.makeBuffer(gather.getResult(), "logit_rows"), planir::Access::Write}},
              {{step.rows, 0}}, "gather_rows");
  return success();
}

} // namespace m3c::kernel
