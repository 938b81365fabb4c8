#include "compiler/codegen/ScalarPrinter.h"

#include "dialects/tile/Tile.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::codegen {
namespace {

std::string floatLiteral(const APFloat &value) {
  if (value.isInfinity())
    return value.isNegative() ? "(-infinity)" : "infinity";
  if (value.isNaN())
    return "notANumber";
  // Hexadecimal literals are exact.
  char digits[64];
  value.convertToHexString(digits, 0, false, APFloat::rmNearestTiesToEven);
  std::string text =
      std::string(digits) + (&value.getSemantics() == &APFloat::IEEEsingle() ? "f" : "");
  return value.isNegative() ? "(" + text + ")" : text;
}

LogicalResult constant(arith::ConstantOp op, std::string &text) {
  if (auto value = dyn_cast<FloatAttr>(op.getValue())) {
    text = floatLiteral(value.getValue());
    return success();
  }
  if (auto value = dyn_cast<IntegerAttr>(op.getValue())) {
    if (value.getType().isInteger(1))
      text = value.getValue().isZero() ? "false" : "true";
    else
      // A 32-bit value is spelled with its type so that lanes of vectors keep theirs.
      text = formatv(value.getType().isInteger(32) ? "i32({0})" : "i64({0})",
                     value.getValue().getSExtValue());
    return success();
  }
  return failure();
}

StringRef comparison(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return "==";
  case arith::CmpIPredicate::ne:
    return "!=";
  case arith::CmpIPredicate::slt:
    return "<";
  case arith::CmpIPredicate::sle:
    return "<=";
  case arith::CmpIPredicate::sgt:
    return ">";
  case arith::CmpIPredicate::sge:
    return ">=";
  default:
    return ""; // unsigned orders are not used: every index is a signed 64-bit value
  }
}

/// Ordered comparisons and `une` are what C++ operators mean.
StringRef comparison(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return "==";
  case arith::CmpFPredicate::UNE:
    return "!=";
  case arith::CmpFPredicate::OLT:
    return "<";
  case arith::CmpFPredicate::OLE:
    return "<=";
  case arith::CmpFPredicate::OGT:
    return ">";
  case arith::CmpFPredicate::OGE:
    return ">=";
  default:
    return "";
  }
}

/// Operators and function names by op; functions are those of the device headers.
struct Spelling {
  StringRef op, symbol;
  bool infix;
};
constexpr Spelling spellings[] = {
    {"arith.addi", "+", true},
    {"arith.subi", "-", true},
    {"arith.muli", "*", true},
    {"arith.divsi", "/", true},
    {"arith.remsi", "%", true},
    {"arith.andi", "&", true},
    {"arith.ori", "|", true},
    {"arith.xori", "^", true},
    {"arith.shli", "<<", true},
    {"arith.shrsi", ">>", true},
    {"arith.addf", "+", true},
    {"arith.subf", "-", true},
    {"arith.mulf", "*", true},
    {"arith.divf", "/", true},
    {"arith.minsi", "minimum", false},
    {"arith.maxsi", "maximum", false},
    {"arith.maxnumf", "maximum", false},
    {"arith.minnumf", "minimum", false},
    {"arith.maximumf", "maximumOrNan", false},
    {"arith.negf", "-", false},
    {"arith.select", "select", false},
    {"math.exp", "exponential", false},
    {"math.exp2", "exponential2", false},
    {"math.sqrt", "squareRoot", false},
    {"math.absf", "magnitude", false},
    {"math.fma", "fusedMultiplyAdd", false},
    {"math.cos", "cosine", false},
    {"math.sin", "sine", false},
    {"math.isnan", "isNan", false},
};

} // namespace

LogicalResult printScalar(Operation *op, ArrayRef<std::string> operands, std::string &text) {
  StringRef opName = op->getName().getStringRef();
  for (const Spelling &spelling : spellings) {
    if (opName != spelling.op)
      continue;
    text = spelling.infix ? formatv("{0} {1} {2}", operands[0], spelling.symbol, operands[1]).str()
                          : formatv("{0}({1})", spelling.symbol, llvm::join(operands, ", ")).str();
    return success();
  }
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::ConstantOp op) { return constant(op, text); })
      .Case([&](arith::CmpIOp op) {
        text = formatv("{0} {1} {2}", operands[0], comparison(op.getPredicate()), operands[1]);
        return success(!comparison(op.getPredicate()).empty());
      })
      .Case([&](arith::CmpFOp op) {
        text = formatv("{0} {1} {2}", operands[0], comparison(op.getPredicate()), operands[1]);
        return success(!comparison(op.getPredicate()).empty());
      })
      .Case<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp, arith::ExtUIOp, arith::SIToFPOp,
            arith::UIToFPOp, arith::FPToSIOp, arith::ExtFOp, arith::TruncFOp>([&](auto op) {
        Type type = op->getResult(0).getType();
        StringRef target = type.isF32()         ? "f32"
                           : type.isF64()       ? "f64"
                           : type.isIndex()     ? "i64"
                           : type.isInteger(64) ? "i64"
                           : type.isInteger(32) ? "i32"
                           : type.isInteger(16) ? "u16"
                                                : "u8";
        text = formatv("convert<{0}>({1})", target, operands[0]);
        return success();
      })
      .Case([&](arith::BitcastOp op) {
        text =
            formatv("{0}({1})", op.getType().isF32() ? "floatOfBits" : "bitsOfFloat", operands[0]);
        return success(op.getType().isF32() || op.getType().isInteger(32));
      })
      .Case([&](tile::RoundOp op) {
        text = formatv("round_{0}({1})", tile::stringifyFormat(op.getFormat()), operands[0]);
        return success(op.getFormat() == tile::Format::BF16 ||
                       op.getFormat() == tile::Format::E4M3);
      })
      .Default([](Operation *) { return failure(); });
}

} // namespace m3c::codegen
