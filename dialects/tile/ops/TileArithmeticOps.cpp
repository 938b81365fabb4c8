// Verifiers of operations on register tiles.
#include "dialects/tile/Tile.h"

using namespace mlir;
using namespace m3c::tile;

//===- Register tiles -------------------------------------------------------------------------===//

LogicalResult MapOp::verify() {
  TileType result = getResult().getType();
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("T-E1: the region has one argument per operand");
  for (auto [argument, input] : llvm::zip(block.getArguments(), getInputs())) {
    auto tile = cast<TileType>(input.getType());
    if (argument.getType() != tile.getElement())
      return emitOpError("T-E2: region argument ") << argument.getType() << " for " << tile;
    bool rows = tile.getRows() == result.getRows() || tile.getRows() == 1;
    bool cols = tile.getCols() == result.getCols() || tile.getCols() == 1;
    if (!rows || !cols)
      return emitOpError("T-E3: ") << tile << " does not broadcast to " << result;
  }
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValue().getType() != result.getElement())
    return emitOpError("T-E4: the region yields one ") << result.getElement();
  return success();
}

LogicalResult ReduceOp::verify() {
  TileType in = getInput().getType(), out = getResult().getType();
  if (in.getLayout() == Layout::MmaAcc) {
    bool rows = getKind() == ReduceKind::Max && out.getLayout() == Layout::MmaRows;
    bool columns = getKind() == ReduceKind::MaxOrNan && out.getLayout() == Layout::MmaColumns &&
                   out.getCols() == in.getCols();
    if (!(rows || columns) || out.getElement() != in.getElement())
      return emitOpError("T-E13: an accumulator gives its rows with max, its columns with "
                         "max_or_nan, found ")
             << out;
    return success();
  }
  bool column = out.getRows() == in.getRows() && out.getCols() == 1;
  bool row = out.getRows() == 1 && out.getCols() == in.getRows();
  if (!(column || row) || out.getElement() != in.getElement())
    return emitOpError("T-E5: ") << in << " reduces to one element per row, found " << out;
  return success();
}

/// One row of i32, lanes along the columns.
static bool isIntegerRow(TileType type) {
  return type.getRows() == 1 && type.getElement().isInteger(32) &&
         type.getLayout() == Layout::Lanes;
}

LogicalResult ScanOp::verify() {
  if (isIntegerRow(getInput().getType()))
    return success();
  return emitOpError("T-E15: one row of i32 expected, found ") << getInput().getType();
}

LogicalResult ScatterOp::verify() {
  if (isIntegerRow(getValue().getType()) && getView().getType().getElement().isInteger(32))
    return success();
  return emitOpError("T-M22: one row of i32 goes to a view of i32, found ")
         << getValue().getType() << " and " << getView().getType();
}

LogicalResult IotaOp::verify() {
  TileType out = getResult().getType();
  bool shape = out.getRows() == 1 || out.getLayout() == Layout::MmaRows;
  if (!shape || !out.getElement().isInteger(32))
    return emitOpError("T-E10: one row of i32 expected, found ") << out;
  return success();
}

LogicalResult ExtractOp::verify() {
  TileType in = getInput().getType();
  if (int64_t(getRow()) >= in.getRows() || int64_t(getCol()) >= in.getCols())
    return emitOpError("T-E6: coordinates outside ") << in;
  if (getResult().getType() != in.getElement())
    return emitOpError("T-E7: an element of ") << in << " is no " << getResult().getType();
  return success();
}

LogicalResult ReshapeOp::verify() {
  TileType in = getInput().getType(), out = getResult().getType();
  if (in.getRows() * in.getCols() != out.getRows() * out.getCols() ||
      in.getElement() != out.getElement())
    return emitOpError("T-E8: ") << in << " and " << out << " hold different elements";
  return success();
}

LogicalResult TransposeOp::verify() {
  TileType in = getInput().getType(), out = getResult().getType();
  if (in.getRows() != out.getCols() || in.getCols() != out.getRows() ||
      in.getElement() != out.getElement())
    return emitOpError("T-E11: ") << out << " is not the transpose of " << in;
  return success();
}

LogicalResult StackOp::verify() {
  TileType out = getResult().getType();
  int64_t rows = 0;
  for (Value input : getInputs()) {
    auto in = cast<TileType>(input.getType());
    rows += in.getRows();
    if (in != getInputs().front().getType() || in.getCols() != out.getCols() ||
        in.getElement() != out.getElement())
      return emitOpError("T-E12: ") << in << " is no equal part of " << out;
  }
  if (rows != out.getRows())
    return emitOpError("T-E12: ") << rows << " rows stand in " << out;
  return success();
}

LogicalResult SliceOp::verify() {
  TileType in = getInput().getType(), out = getResult().getType();
  if (int64_t(getRow()) + out.getRows() > in.getRows() ||
      int64_t(getCol()) + out.getCols() > in.getCols() || in.getElement() != out.getElement())
    return emitOpError("T-E9: ") << out << " at [" << getRow() << ", " << getCol()
                                 << "] is no part of " << in;
  if (in.getLayout() != out.getLayout() || (in.getLayout() == Layout::MmaAcc && getCol() % 8))
    return emitOpError("T-E16: ") << out << " from column " << getCol() << " on is no part of "
                                  << in << " as registers hold it";
  return success();
}

//===- Atoms ----------------------------------------------------------------------------------===//

/// Operands of a matrix instruction.
static LogicalResult verifyFragments(MmaOp op, TileType a, TileType b, TileType acc) {
  bool elements = a.getElement() == b.getElement() ||
                  (a.getElement().isF32() && b.getElement().isBF16()); // in BF16 parts
  if (a.getLayout() != Layout::MmaA || b.getLayout() != Layout::MmaB ||
      acc.getLayout() != Layout::MmaAcc || b.getCols() != acc.getCols() ||
      a.getCols() != b.getRows() || !elements || !acc.getElement().isF32() ||
      op.getResult().getType() != acc)
    return op.emitOpError("T-A9: layouts mma_a, mma_b and mma_acc of equal K, columns and operand "
                          "elements expected, found ")
           << a << ", " << b << ", " << acc;
  return success();
}

LogicalResult MmaOp::verify() {
  if (getAcc().getType().getLayout() != Layout::Lanes)
    return verifyFragments(*this, getA().getType(), getB().getType(), getAcc().getType());
  TileType a = getA().getType(), b = getB().getType(), acc = getAcc().getType();
  bool onB = getSide() == Side::B;
  int64_t m = onB ? a.getRows() : a.getCols(), ka = onB ? a.getCols() : a.getRows();
  int64_t kb = onB ? b.getRows() : b.getCols(), n = onB ? b.getCols() : b.getRows();
  int64_t accM = onB ? acc.getRows() : acc.getCols(), accN = onB ? acc.getCols() : acc.getRows();
  if (ka != kb || m != accM || n != accN)
    return emitOpError("T-A1: shapes ")
           << a << ", " << b << ", " << acc << " are no product with lanes on "
           << stringifySide(getSide());
  if (!a.getElement().isF32() || !b.getElement().isF32() || !acc.getElement().isF32() ||
      getResult().getType() != acc)
    return emitOpError(
        "T-A2: operands and accumulator are f32, the result is the accumulator's type");
  return success();
}

LogicalResult FmaOp::verify() {
  TileType acc = getAcc().getType();
  for (TileType tile : {getA().getType(), getB().getType()})
    if ((tile.getRows() != acc.getRows() && tile.getRows() != 1) ||
        (tile.getCols() != acc.getCols() && tile.getCols() != 1) || !tile.getElement().isF32())
      return emitOpError("T-A3: ") << tile << " does not broadcast to " << acc;
  if (getResult().getType() != acc)
    return emitOpError("T-A2: the result is the accumulator's type");
  return success();
}

LogicalResult DequantWordsOp::verify() {
  TileType words = getWords().getType(), out = getResult().getType();
  if (!words.getElement().isInteger(32) || !out.getElement().isF32() ||
      words.getRows() != out.getRows() || words.getCols() != out.getCols())
    return emitOpError("T-A4: i32 words give f32 values of the same shape");
  if (getScale()) {
    TileType scale = getScale().getType();
    if (scale != out)
      return emitOpError("T-A5: the scale is ")
             << scale << ", one per value of " << out << " expected";
  }
  if (getFormat() == Format::E8M0 || getFormat() == Format::UE4M3)
    return emitOpError("T-A6: ") << stringifyFormat(getFormat()) << " is a scale format";
  return success();
}

LogicalResult DequantFragmentOp::verify() {
  TileType words = getWords().getType(), out = getResult().getType();
  if (getFormat() == Format::E8M0 || getFormat() == Format::UE4M3)
    return emitOpError("T-A10: f32, bf16, e4m3 or e2m1 expected");
  int64_t bits = getFormat() == Format::F32    ? 32
                 : getFormat() == Format::BF16 ? 16
                 : getFormat() == Format::E4M3 ? 8
                                               : 4;
  if (out.getElement().isF32() != (bits == 32))
    return emitOpError("T-A13: f32 gives a tile of f32, other formats one of bf16, found ") << out;
  if (out.getLayout() != Layout::MmaA || words.getLayout() != Layout::PerLane ||
      words.getRows() != 32 || words.getCols() != bits || !words.getElement().isInteger(32))
    return emitOpError("T-A11: ") << bits
                                  << " words of i32 in each lane give a tile in layout mma_a";
  int64_t scaleRows = getFormat() == Format::E2M1 ? 32 : 16;
  if (bool(getScale()) != (bits < 16))
    return emitOpError("T-A12: e4m3 and e2m1 have scales, bf16 and f32 have none");
  if (getScale()) {
    TileType scale = getScale().getType();
    if (scale.getLayout() != Layout::PerLane || scale.getRows() != scaleRows ||
        scale.getCols() != 2 || !scale.getElement().isInteger(8))
      return emitOpError("T-A12: the scales are ") << scaleRows << "x2xi8 in layout per_lane";
  }
  return success();
}

static LogicalResult verifyCoded(Operation *op, Format format, TileType codes, TileType values) {
  int64_t bits = format == Format::BF16 ? 16 : format == Format::F32 ? 32 : 8;
  if (format == Format::E2M1)
    return op->emitOpError(
        "T-A7: e2m1 codes have no element of their own; use the group or word ops");
  if (!codes.getElement().isInteger(bits) && !(bits == 32 && codes.getElement().isF32()))
    return op->emitOpError("T-A7: ")
           << stringifyFormat(format) << " codes are i" << bits << ", found " << codes;
  if (!values.getElement().isF32() || codes.getRows() != values.getRows() ||
      codes.getCols() != values.getCols())
    return op->emitOpError("T-A4: codes and f32 values have the same shape");
  return success();
}
LogicalResult DecodeOp::verify() {
  return verifyCoded(*this, getFormat(), getCodes().getType(), getResult().getType());
}
LogicalResult EncodeOp::verify() {
  return verifyCoded(*this, getFormat(), getResult().getType(), getInput().getType());
}

static LogicalResult verifyGroup(Operation *op, TileType codes, TileType values) {
  if (codes.getRows() != 1 || codes.getCols() != 8 || !codes.getElement().isInteger(8) ||
      values.getRows() != 1 || values.getCols() != 16 || !values.getElement().isF32())
    return op->emitOpError("T-A8: a group is 8 bytes (1x8xi8) and 16 values (1x16xf32)");
  return success();
}
LogicalResult DequantGroupOp::verify() {
  return verifyGroup(*this, getCodes().getType(), getResult().getType());
}
LogicalResult QuantGroupOp::verify() {
  return verifyGroup(*this, getCodes().getType(), getInput().getType());
}
LogicalResult QuantGroupsOp::verify() {
  TileType values = getInput().getType(), codes = getCodes().getType(),
           scales = getScales().getType();
  int64_t groups = scales.getCols();
  bool oneRow = values.getRows() == 1 && codes.getRows() == 1 && scales.getRows() == 1;
  bool fits = values.getCols() == 16 * groups && codes.getCols() == 8 * groups;
  bool elements = values.getElement().isF32() && codes.getElement().isInteger(8) &&
                  scales.getElement().isInteger(8);
  if (oneRow && fits && elements)
    return success();
  return emitOpError(
      "T-A24: N groups are 8·N bytes, N scales (i8) and 16·N values (f32) of one row");
}
