// Register tiles: one call per operation.
#include "compiler/codegen/Printer.h"

namespace m3c::codegen {

LogicalResult Printer::arithmetic(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](FillOp op) {
        return define(
            op, "t",
            formatv("fill<{0}>({1})", madeType(op.getResult().getType()), name(op.getValue())));
      })
      .Case([&](AnyOp op) {
        line("bool " + fresh(op.getResult(), "any") + " = anyOf(" + name(op.getInput()) + ");");
        return success();
      })
      .Case([&](ReduceOp op) {
        if (op.getInput().getType().getLayout() == Layout::MmaAcc) {
          bool rows = op.getKind() == ReduceKind::Max;
          return define(
              op, "t",
              formatv("reduce{0}({1})", rows ? "MaxRows" : "MaxOrNanColumns", name(op.getInput())));
        }
        bool lanes = op.getResult().getType().getCols() > 1;
        return define(op, "t",
                      formatv("reduce{0}{1}({2})", op.getKind() == ReduceKind::Add ? "Add" : "Max",
                              lanes ? "Lanes" : "", name(op.getInput())));
      })
      .Case([&](ScanOp op) { return define(op, "t", formatv("scan({0})", name(op.getInput()))); })
      .Case([&](IotaOp op) {
        TileType type = op.getResult().getType();
        bool inLanes = type.getLayout() == Layout::Lanes;
        return define(
            op, "t",
            formatv("iota<{0}>()", inLanes ? std::to_string(type.getCols()) : tileType(type)));
      })
      .Case([&](ExtractOp op) {
        line(formatv("{0} {1} = extract<{2}, {3}>({4});", elementType(op.getResult().getType()),
                     fresh(op.getResult(), "e"), op.getRow(), op.getCol(), name(op.getInput())));
        return success();
      })
      .Case([&](ReshapeOp op) {
        return define(op, "t",
                      formatv("reshape<{0}>({1})", tileArguments(op.getResult().getType()),
                              name(op.getInput())));
      })
      .Case([&](TransposeOp op) {
        return define(op, "t", formatv("transpose({0})", name(op.getInput())));
      })
      .Case(
          [&](StackOp op) { return define(op, "t", formatv("stack({0})", list(op.getInputs()))); })
      .Case([&](SliceOp op) {
        TileType type = op.getResult().getType();
        if (type.getLayout() == Layout::MmaAcc)
          return define(op, "t",
                        formatv("columnsOf<{0}, {1}>({2})", type.getCols(), op.getCol(),
                                name(op.getInput())));
        return define(op, "t",
                      formatv("slice<{0}, {1}, {2}, {3}>({4})", type.getRows(), type.getCols(),
                              op.getRow(), op.getCol(), name(op.getInput())));
      })
      .Case([&](MmaOp op) {
        std::string plain = op.getSide() == Side::B ? "mma" : "mmaLanesA";
        return define(op, "acc",
                      formatv("{0}({1})", atomCall(op.getAtom(), plain),
                              list({op.getA(), op.getB(), op.getAcc()})));
      })
      .Case([&](FmaOp op) {
        return define(op, "acc",
                      formatv("{0}({1})", atomCall(op.getAtom(), "fma"),
                              list({op.getA(), op.getB(), op.getAcc()})));
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::conversion(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ToOperandOp op) {
        bool e4m3 = isa<Float8E4M3FNType>(op.getResult().getType().getElement());
        return define(op, "a",
                      formatv("{0}({1})", e4m3 ? "toE4m3" : "toOperand", name(op.getInput())));
      })
      .Case([&](FromOperandOp op) {
        return define(op, "acc", formatv("fromOperand({0})", name(op.getInput())));
      })
      .Case([&](DequantWordsOp op) {
        std::string plain = formatv("words_{0}", stringifyFormat(op.getFormat()));
        std::string scale = op.getScale() ? ", " + name(op.getScale()) : "";
        return define(op, "w",
                      formatv("{0}({1}, {2}{3})", atomCall(op.getAtom(), plain),
                              name(op.getWords()), name(op.getPart()), scale));
      })
      .Case([&](DequantFragmentOp op) {
        std::string plain = formatv("fragment_{0}", stringifyFormat(op.getFormat()));
        std::string scale = op.getScale() ? ", " + name(op.getScale()) : "";
        return define(
            op, "a",
            formatv("{0}({1}{2})", atomCall(op.getAtom(), plain), name(op.getWords()), scale));
      })
      .Case([&](DecodeOp op) {
        std::string plain = formatv("decode_{0}", stringifyFormat(op.getFormat()));
        return define(op, "t",
                      formatv("{0}({1})", atomCall(op.getAtom(), plain), name(op.getCodes())));
      })
      .Case([&](EncodeOp op) {
        std::string plain = formatv("encode_{0}", stringifyFormat(op.getFormat()));
        return define(op, "t",
                      formatv("{0}({1})", atomCall(op.getAtom(), plain), name(op.getInput())));
      })
      .Case([&](DequantGroupOp op) {
        return define(op, "g",
                      formatv("{0}<{1}>({2}, {3})", atomCall(op.getAtom(), "dequantGroup"),
                              op.getE4m3Grid() ? "Grid::E4m3" : "Grid::Exact", name(op.getCodes()),
                              name(op.getScale())));
      })
      .Case([&](QuantGroupOp op) {
        std::string codes = fresh(op.getCodes(), "g"), scale = fresh(op.getScale(), "scale");
        return statement(op, formatv("auto [{0}, {1}] = {2}({3});", codes, scale,
                                     atomCall(op.getAtom(), "quantGroup"), name(op.getInput())));
      })
      .Case([&](QuantGroupsOp op) {
        std::string codes = fresh(op.getCodes(), "g"), scales = fresh(op.getScales(), "scales");
        return statement(op, formatv("auto [{0}, {1}] = {2}({3});", codes, scales,
                                     atomCall(op.getAtom(), "quantGroups"), name(op.getInput())));
      })
      .Default([](Operation *) { return failure(); });
}

} // namespace m3c::codegen
