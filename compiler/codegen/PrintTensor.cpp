// Tensor memory: allocation, gates, operands, products, rows that lanes hold.
#include "compiler/codegen/Printer.h"

namespace m3c::codegen {

/// A buffer of bytes or words that the kernel has at `offset`.
static FailureOr<std::string> sharedWord(Operation *op, std::optional<uint64_t> offset,
                                         StringRef type) {
  if (!offset)
    return op->emitOpError("has no offset; run tile-assign-shared");
  return formatv("({0} *)((u8 *)shared + {1})", type, *offset).str();
}

static std::string gateCall(Gate side, StringRef verb) {
  return (verb + (side == Gate::Full ? "Full" : "Empty")).str();
}

LogicalResult Printer::tensorMemory(Operation *op) {
  auto columns = [](Value memory) { return cast<ViewType>(memory.getType()).getShape()[1]; };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](TensorMemoryOp op) -> LogicalResult {
        FailureOr<std::string> word = sharedWord(op, op.getOffset(), "u32");
        if (failed(word))
          return failure();
        return define(op, "tensor",
                      formatv("{0}<{1}>({2})", op.getPair() ? "pairTensorMemory" : "tensorMemory",
                              columns(op.getMemory()), *word));
      })
      .Case([&](TensorFreeOp op) {
        bool pair = op.getMemory().getDefiningOp<TensorMemoryOp>().getPair();
        return statement(op, formatv("{0}<{1}>({2});",
                                     pair ? "freePairTensorMemory" : "freeTensorMemory",
                                     columns(op.getMemory()), name(op.getMemory())));
      })
      .Case([&](TensorPartOp op) {
        return define(op, "part",
                      formatv("{0} + (u32)({1})", name(op.getMemory()), name(op.getColumn())));
      })
      .Case([&](TensorLoadOp op) {
        return define(op, "t",
                      formatv("{0}<{1}>({2})", atomCall(op.getAtom(), "loadTensor"),
                              tileType(op.getResult().getType()), name(op.getPart())));
      })
      .Case([&](TensorStoreOp op) {
        return statement(op, formatv("{0}({1}, {2});", atomCall(op.getAtom(), "storeTensor"),
                                     name(op.getValue()), name(op.getPart())));
      })
      .Case([&](GatesOp op) -> LogicalResult {
        FailureOr<std::string> words = sharedWord(op, op.getOffset(), "u64");
        if (failed(words))
          return failure();
        return define(op, "gates",
                      formatv("Gates<{0}{1}>({2}, {3}, {4})", op.getGates().getType().getStages(),
                              op.getPair() ? ", PairGates" : "", *words, op.getFills(),
                              op.getDrains()));
      })
      .Case<GateWaitOp, GateSignalOp, GateCommitOp>([&](auto op) {
        StringRef verb = isa<GateWaitOp>(op) ? "wait" : isa<GateSignalOp>(op) ? "signal" : "commit";
        return statement(op, formatv("{0}.{1}({2});", name(op.getGates()),
                                     gateCall(op.getSide(), verb), name(op.getUse())));
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::tensorOperand(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](OperandQueriesOp op) {
        int64_t stride = op.getRows().getType().getStride(0);
        return statement(op, formatv("operandQueries<{0}>({1} + {2} * {3}, {3}, {4} - {2}, {5});",
                                     op.getOperand().getType().getShape()[0], name(op.getRows()),
                                     name(op.getRow()), stride, name(op.getLimit()),
                                     name(op.getOperand())));
      })
      .Case([&](TensorKeysOp op) {
        return statement(op, formatv("{0}({1});", atomCall(op.getAtom(), "tensorKeys"),
                                     list({op.getCodes(), op.getScales(), op.getPart()})));
      })
      .Case([&](OperandValuesOp op) {
        return statement(
            op, formatv("{0}({1});", atomCall(op.getAtom(), "operandValues"),
                        list({op.getCodes(), op.getScales(), op.getLimit(), op.getOperand()})));
      })
      .Case([&](OperandWeightsOp op) {
        return define(op, "t",
                      formatv("operandWeights({0})", list({op.getWeights(), op.getOperand()})));
      })
      .Case([&](TensorMmaOp op) {
        StringRef plain = op.getPair()                      ? "pairProductE4m3"
                          : op.getOperandFormat() == "e4m3" ? "tensorProductE4m3"
                                                            : "tensorProductF16";
        return statement(
            op, formatv("{0}<{1}>({2});", atomCall(op.getAtom(), plain),
                        op.getSums().getType().getShape()[1],
                        list({op.getLeft(), op.getRight(), op.getSums(), op.getAccumulate()})));
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::laneRows(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](LaneNumbersOp op) { return define(op, "t", "laneNumbers()"); })
      .Case([&](ReduceLanesOp op) {
        StringRef kind = op.getKind() == ReduceKind::Add   ? "Add"
                         : op.getKind() == ReduceKind::Max ? "Max"
                                                           : "MaxOrNan";
        return define(op, "t", formatv("lanes{0}({1})", kind, name(op.getInput())));
      })
      .Case([&](LoadRowOp op) {
        return define(op, "t",
                      formatv("loadRow<{0}>({1})", tileType(op.getResult().getType()),
                              address(op.getView(), op.getIndices())));
      })
      .Case([&](StoreLanesOp op) {
        ViewType view = op.getView().getType();
        size_t rank = view.getShape().size();
        return statement(op, formatv("storeLanes({0}, {1}, {2});", name(op.getValue()),
                                     address(op.getView(), op.getIndices()),
                                     rank > 1 ? view.getStride(unsigned(rank) - 2) : 0));
      })
      .Default([](Operation *) { return failure(); });
}

} // namespace m3c::codegen
