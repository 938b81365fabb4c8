// Register tiles: one call per operation.
#include "compiler/codegen/Printer.h"

namespace m3c::codegen {

LogicalResult Printer::arithmetic(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](FillOp op) {
        define(op, "t",
               formatv("fill<{0}>({1})", madeType(op.getResult().getType()), name(op.getValue())));
        return success();
      })
      .Case([&](AnyOp op) {
        line("bool " + fresh(op.getResult(), "any") + " = anyOf(" + name(op.getInput()) + ");");
        return success();
      })
      .Case([&](ReduceOp op) {
        if (op.getInput().getType().getLayout() == Layout::MmaAcc) {
          bool rows = op.getKind() == ReduceKind::Max;
          define(
              op, "t",
              formatv("reduce{0}({1})", rows ? "MaxRows" : "MaxOrNanColumns", name(op.getInput())));
          return success();
        }
        bool lanes = op.getResult().getType().getCols() > 1;
        define(op, "t",
               formatv("reduce{0}{1}({2})", op.getKind() == ReduceKind::Add ? "Add" : "Max",
                       lanes ? "Lanes" : "", name(op.getInput())));
        return success();
      })
      .Case([&](ScanOp op) {
        define(op, "t", formatv("scan({0})", name(op.getInput())));
        return success();
      })
      .Case([&](IotaOp op) {
        TileType type = op.getResult().getType();
        bool inLanes = type.getLayout() == Layout::Lanes;
        define(op, "t",
               formatv("iota<{0}>()", inLanes ? std::to_string(type.getCols()) : tileType(type)));
        return success();
      })
      .Case([&](ExtractOp op) {
        line(formatv("{0} {1} = extract<{2}, {3}>({4});", elementType(op.getResult().getType()),
                     fresh(op.getResult(), "e"), op.getRow(), op.getCol(), name(op.getInput())));
        return success();
      })
      .Case([&](ReshapeOp op) {
        define(op, "t",
               formatv("reshape<{0}>({1})", tileArguments(op.getResult().getType()),
                       name(op.getInput())));
        return success();
      })
      .Case([&](TransposeOp op) {
        define(op, "t", formatv("transpose({0})", name(op.getInput())));
        return success();
      })
      .Case([&](StackOp op) {
        define(op, "t", formatv("stack({0})", list(op.getInputs())));
        return success();
      })
      .Case([&](SliceOp op) {
        TileType type = op.getResult().getType();
        define(op, "t",
               formatv("slice<{0}, {1}, {2}, {3}>({4})", type.getRows(), type.getCols(),
                       op.getRow(), op.getCol(), name(op.getInput())));
        return success();
      })
      .Case([&](MmaOp op) {
        std::string plain = op.getSide() == Side::B ? "mma" : "mmaLanesA";
        define(op, "acc",
               formatv("{0}({1})", atomCall(op.getAtom(), plain),
                       list({op.getA(), op.getB(), op.getAcc()})));
        return success();
      })
      .Case([&](FmaOp op) {
        define(op, "acc",
               formatv("{0}({1})", atomCall(op.getAtom(), "fma"),
                       list({op.getA(), op.getB(), op.getAcc()})));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::conversion(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ToOperandOp op) {
        bool e4m3 = isa<Float8E4M3FNType>(op.getResult().getType().getElement());
        define(op, "a", formatv("{0}({1})", e4m3 ? "toE4m3" : "toOperand", name(op.getInput())));
        return success();
      })
      .Case([&](DequantWordsOp op) {
        std::string plain = formatv("words_{0}", stringifyFormat(op.getFormat()));
        std::string scale = op.getScale() ? ", " + name(op.getScale()) : "";
        define(op, "w",
               formatv("{0}({1}, {2}{3})", atomCall(op.getAtom(), plain), name(op.getWords()),
                       name(op.getPart()), scale));
        return success();
      })
      .Case([&](DequantFragmentOp op) {
        std::string plain = formatv("fragment_{0}", stringifyFormat(op.getFormat()));
        std::string scale = op.getScale() ? ", " + name(op.getScale()) : "";
        define(op, "a",
               formatv("{0}({1}{2})", atomCall(op.getAtom(), plain), name(op.getWords()), scale));
        return success();
      })
      .Case([&](DecodeOp op) {
        std::string plain = formatv("decode_{0}", stringifyFormat(op.getFormat()));
        define(op, "t", formatv("{0}({1})", atomCall(op.getAtom(), plain), name(op.getCodes())));
        return success();
      })
      .Case([&](EncodeOp op) {
        std::string plain = formatv("encode_{0}", stringifyFormat(op.getFormat()));
        define(op, "t", formatv("{0}({1})", atomCall(op.getAtom(), plain), name(op.getInput())));
        return success();
      })
      .Case([&](DequantGroupOp op) {
        define(op, "g",
               formatv("{0}<{1}>({2}, {3})", atomCall(op.getAtom(), "dequantGroup"),
                       op.getE4m3Grid() ? "Grid::E4m3" : "Grid::Exact", name(op.getCodes()),
                       name(op.getScale())));
        return success();
      })
      .Case([&](QuantGroupOp op) {
        std::string codes = fresh(op.getCodes(), "g"), scale = fresh(op.getScale(), "scale");
        line(formatv("auto [{0}, {1}] = {2}({3});", codes, scale,
                     atomCall(op.getAtom(), "quantGroup"), name(op.getInput())) +
             origin(op));
        return success();
      })
      .Case([&](QuantGroupsOp op) {
        std::string codes = fresh(op.getCodes(), "g"), scales = fresh(op.getScales(), "scales");
        line(formatv("auto [{0}, {1}] = {2}({3});", codes, scales,
                     atomCall(op.getAtom(), "quantGroups"), name(op.getInput())) +
             origin(op));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

} // namespace m3c::codegen
