// Families that work row by row: embedding, norm, gathered rows, rotary table.
#include "passes/kernel/Families.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

static tile::ViewType countsType(MLIRContext *context) {
  return tile::ViewType::get(context, {4}, IntegerType::get(context, 32), tile::Space::Global);
}
static tile::ViewType listType(MLIRContext *context) {
  return tile::ViewType::get(context, {ShapedType::kDynamic}, IntegerType::get(context, 32),
                             tile::Space::Global);
}
static tile::ViewType rowsType(MLIRContext *context, int64_t width, Type element = {}) {
  return tile::ViewType::get(context, {ShapedType::kDynamic, width},
                             element ? element : Float32Type::get(context), tile::Space::Global);
}
static int64_t widthOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape().back();
}

/// Calls `body` for every column chunk of a row; the last chunk may be narrower.
static void eachChunk(KernelBuilder &kb, int64_t width, int64_t chunk,
                      function_ref<void(Value col, int64_t cols)> body) {
  int64_t whole = width / chunk * chunk;
  if (whole)
    kb.forLoop(kb.index(0), kb.index(whole), chunk, [&](Value col) { body(col, chunk); });
  if (whole < width)
    body(kb.index(whole), width - whole);
}

//===- Embedding ------------------------------------------------------------------------------===//

LogicalResult lowerEmbed(Operation *op, StepLowering &step) {
  auto embed = cast<m3::EmbedOp>(op);
  m3::WeightOp weight = step.weightOp(embed.getWeight());
  int64_t width = widthOf(embed.getRows());
  bool wide = weight.weightType().getEncoding() == m3::Encoding::F32;
  if (!wide && weight.weightType().getEncoding() != m3::Encoding::BF16)
    return op->emitError("the embedding table is stored as ")
           << m3::stringifyEncoding(weight.weightType().getEncoding()) << ", bf16 or f32 expected";
  std::string name = formatv("embed_{0}_{1}", wide ? "f32" : "bf16", width);
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = op->getContext();
    Type stored = wide ? Type(Float32Type::get(context)) : Type(IntegerType::get(context, 16));
    KernelBuilder kb(step.module, name, "embed", {},
                     {countsType(context), listType(context), rowsType(context, width, stored),
                      rowsType(context, width)});
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      Value token = kb.loadIndex(kb.parameter(1), {row});
      eachChunk(kb, width, 16, [&](Value col, int64_t cols) {
        Value codes = kb.load(kb.parameter(2), {token, col}, {1, cols}, 1, cols);
        Value values =
            tile::DecodeOp::create(kb.builder(), kb.tile(1, cols), codes,
                                   wide ? tile::Format::F32 : tile::Format::BF16, StringAttr());
        kb.store(values, kb.parameter(3), {row, col}, {1, cols});
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
      for (int64_t i = 0; i < half; ++i) {
        // One rounding of the frequency, one of the angle (model.md §2).
        Value angle = kb.mulf(p, kb.f32(float(std::pow(theta, -2.0 * double(i) / double(rotary)))));
        kb.storeScalar(math::CosOp::create(b, angle), kb.parameter(2), {row, kb.index(i)});
        kb.storeScalar(math::SinOp::create(b, angle), kb.parameter(2), {row, kb.index(half + i)});
      }
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

void emitNormRow(KernelBuilder &kb, Value x, Value weight, Value y, Value row, int64_t width,
                 double eps) {
  // Two accumulator vectors of 16: enough in flight, and the order does not depend on the lanes.
  Value zero = kb.index(0);
  int64_t whole = width / 16 * 16;
  Values sums = kb.forLoop(zero, kb.index(whole), 16, kb.fill(0.0, 1, 16),
                           [&](Value col, ValueRange carried) {
                             Value v = kb.load(x, {row, col}, {1, 16}, 1, 16);
                             return Values{kb.fma(v, v, carried[0])};
                           });
  Value sum = kb.extract(kb.reduce(tile::ReduceKind::Add, sums[0]), 0, 0);
  if (whole < width) {
    Value tail = kb.load(x, {row, kb.index(whole)}, {1, width - whole}, 1, width - whole);
    Value squares =
        kb.map(tail, 1, width - whole, [&](ValueRange args) { return kb.mulf(args[0], args[0]); });
    sum = kb.addf(sum, kb.extract(kb.reduce(tile::ReduceKind::Add, squares), 0, 0));
  }
  Value mean = kb.divf(sum, kb.f32(double(width)));
  Value scale = kb.divf(kb.f32(1.0), kb.sqrtf(kb.addf(mean, kb.f32(eps))));
  eachChunk(kb, width, 16, [&](Value col, int64_t cols) {
    Value v = kb.load(x, {row, col}, {1, cols}, 1, cols);
    Value w = kb.load(weight, {col}, {cols}, 1, cols);
    Value out = kb.map({v, w}, 1, cols, [&](ValueRange args) {
      return kb.mulf(kb.mulf(args[0], scale), kb.addf(args[1], kb.f32(1.0)));
    });
    kb.store(out, y, {row, col}, {1, cols});
  });
}

LogicalResult lowerNorm(Operation *op, StepLowering &step) {
  auto norm = cast<m3::NormOp>(op);
  int64_t width = widthOf(norm.getX());
  double eps = norm.getEps().convertToDouble();
  std::string name = formatv("norm_{0}_{1:E1}", width, eps);
  llvm::replace(name, '-', 'm');
  llvm::replace(name, '.', 'p');
  llvm::replace(name, '+', 'p');
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = op->getContext();
    KernelBuilder kb(
        step.module, name, "norm", {},
        {countsType(context), rowsType(context, width),
         tile::ViewType::get(context, {width}, Float32Type::get(context), tile::Space::Global),
         rowsType(context, width)});
    Value row = kb.blockId(tile::Axis::X);
    kb.when(kb.less(row, kb.loadIndex(kb.parameter(0), {kb.index(0)})), [&] {
      emitNormRow(kb, kb.parameter(1), kb.parameter(2), kb.parameter(3), row, width, eps);
    });
    return kb.finish();
  });
  step.launch(kernel,
              {{step.batch(planir::BatchArray::Counts), planir::Access::Read},
               {step.bufferOf(norm.getX()), planir::Access::Read},
               {step.weight(step.vector(step.weightOp(norm.getWeight()))), planir::Access::Read},
               {step.makeBuffer(norm.getResult(), "normed"), planir::Access::Write}},
              {{step.rows, 0}}, norm.getWeight());
  return success();
}

//===- Rows whose logits are wanted -----------------------------------------------------------===//

LogicalResult lowerGatherRows(Operation *op, StepLowering &step) {
  auto gather = cast<m3::GatherRowsOp>(op);
  int64_t width = widthOf(gather.getX());
  std::string name = formatv("gather_rows_{0}", width);
  tile::KernelOp kernel = step.kernel(name, [&] {
    MLIRContext *context = op->getContext();
    KernelBuilder kb(step.module, name, "gather_rows", {},
                     {countsType(context), listType(context), rowsType(context, width),
                      rowsType(context, width)});
    Value to = kb.blockId(tile::Axis::X);
    kb.when(kb.less(to, kb.loadIndex(kb.parameter(0), {kb.index(2)})), [&] {
      Value from = kb.loadIndex(kb.parameter(1), {to});
      eachChunk(kb, width, 16, [&](Value col, int64_t cols) {
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
