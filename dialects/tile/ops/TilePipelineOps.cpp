// Rings, pipelines and their roles.
#include "dialects/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace m3c::tile;

LogicalResult RingOp::verify() {
  RingType type = getRing().getType();
  if (getAsync() && (*getAsync() < 1 || type.getStageType().getByteSize() % 16))
    return emitOpError("T-R3: stages of an asynchronous ring are multiples of 16 bytes, and at "
                       "least one release drains them");
  if (getTurns() && (!getAsync() || *getTurns() < 2 || int64_t(*getTurns()) > type.getStages()))
    return emitOpError("T-R8: ") << *getTurns() << " groups wait for the uses of an asynchronous "
                                 << "ring in turn, so it has as many stages or more, not "
                                 << type.getStages();
  return success();
}

/// Uses of an asynchronous ring are numbered, those of another are not.
template <class Op> static LogicalResult verifyUse(Op op) {
  auto ring = op.getRing().template getDefiningOp<RingOp>();
  if (ring && bool(ring.getAsync()) != bool(op.getUse()))
    return op.emitOpError("T-R4: the uses of a ring are numbered if it is asynchronous");
  return success();
}
LogicalResult CommitOp::verify() { return verifyUse(*this); }
LogicalResult ReleaseOp::verify() { return verifyUse(*this); }

template <class Op> static LogicalResult verifyStage(Op op) {
  if (failed(verifyUse(op)))
    return failure();
  if (op.getStage().getType() != op.getRing().getType().getStageType())
    return op.emitOpError("T-R2: a stage of ")
           << op.getRing().getType() << " is " << op.getRing().getType().getStageType();
  return success();
}
LogicalResult AcquireOp::verify() { return verifyStage(*this); }
LogicalResult WaitOp::verify() { return verifyStage(*this); }

void RoleOp::build(OpBuilder &, OperationState &state, StringRef name) {
  state.addAttribute("name", StringAttr::get(state.getContext(), name));
  state.addRegion()->emplaceBlock();
}

void PipelineOp::build(OpBuilder &builder, OperationState &state, Value lower, Value upper,
                       Value step) {
  state.addOperands({lower, upper, step});
  Block &block = state.addRegion()->emplaceBlock();
  block.addArgument(builder.getIndexType(), state.location);
}

ParseResult PipelineOp::parse(OpAsmParser &parser, OperationState &result) {
  Type index = parser.getBuilder().getIndexType();
  OpAsmParser::Argument induction;
  OpAsmParser::UnresolvedOperand lower, upper, step;
  induction.type = index;
  Region *body = result.addRegion();
  if (parser.parseArgument(induction) || parser.parseEqual() || parser.parseOperand(lower) ||
      parser.parseKeyword("to") || parser.parseOperand(upper) || parser.parseKeyword("step") ||
      parser.parseOperand(step) || parser.resolveOperand(lower, index, result.operands) ||
      parser.resolveOperand(upper, index, result.operands) ||
      parser.resolveOperand(step, index, result.operands) || parser.parseRegion(*body, induction) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  return success();
}

void PipelineOp::print(OpAsmPrinter &printer) {
  printer << " " << getBody().getArgument(0) << " = " << getLower() << " to " << getUpper()
          << " step " << getStep() << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs());
}

namespace {
/// Who uses one ring, by the order of the roles.
struct RingUse {
  int producer = -1, consumer = -1;
  Operation *acquire = nullptr, *commit = nullptr, *wait = nullptr, *release = nullptr;
};
} // namespace

static LogicalResult noteUse(Operation *op, Operation *&slot, int &owner, int role,
                             Operation *roleOp) {
  if (op->getParentOp() != roleOp)
    return op->emitOpError("T-P2: stands inside a loop or branch of its role");
  if (slot)
    return op->emitOpError("T-P2: a second one for the same ring");
  if (owner != -1 && owner != role)
    return op->emitOpError("T-P1: the ring is used on this side by another role");
  slot = op;
  owner = role;
  return success();
}

LogicalResult PipelineOp::verify() {
  llvm::MapVector<Value, RingUse> rings;
  int index = 0;
  for (Operation &child : getBody().front()) {
    auto role = dyn_cast<RoleOp>(child);
    if (!role)
      return child.emitOpError("T-P3: only roles stand in a pipeline");
    WalkResult walk = role.getBody().walk([&](Operation *op) {
      LogicalResult result = success();
      if (auto use = dyn_cast<AcquireOp>(op))
        result =
            noteUse(op, rings[use.getRing()].acquire, rings[use.getRing()].producer, index, role);
      else if (auto use = dyn_cast<CommitOp>(op))
        result =
            noteUse(op, rings[use.getRing()].commit, rings[use.getRing()].producer, index, role);
      else if (auto use = dyn_cast<WaitOp>(op))
        result = noteUse(op, rings[use.getRing()].wait, rings[use.getRing()].consumer, index, role);
      else if (auto use = dyn_cast<ReleaseOp>(op))
        result =
            noteUse(op, rings[use.getRing()].release, rings[use.getRing()].consumer, index, role);
      return failed(result) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    ++index;
  }
  for (auto &[ring, use] : rings) {
    if (!use.acquire || !use.commit || !use.wait || !use.release)
      return emitOpError(
          "T-P1: a ring needs acquire, commit, wait and release; a copy that is never "
          "waited for, or a wait that nothing fills, stands in this pipeline");
    if (use.consumer <= use.producer)
      return emitOpError("T-P1: a ring is drained by a later role than the one that fills it");
    if (use.commit->isBeforeInBlock(use.acquire) || use.release->isBeforeInBlock(use.wait))
      return emitOpError("T-P2: acquire before commit, wait before release");
  }
  return success();
}
