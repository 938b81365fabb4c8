// Verifiers and custom syntax of the tile operations. Constraint labels (T-…) are those of the op
// descriptions and of the tests.
#include "dialects/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace m3c::tile;

//===- Kernel ---------------------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type,
                     StringRef family, DictionaryAttr schedule) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getFamilyAttrName(state.name), builder.getStringAttr(family));
  state.addAttribute(getScheduleAttrName(state.name), schedule);
  Block *entry = new Block;
  state.addRegion()->push_back(entry);
  entry->addArguments(type.getInputs(), SmallVector<Location>(type.getNumInputs(), state.location));
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult KernelOp::verify() {
  if (!getResultTypes().empty())
    return emitOpError("T-K1: a kernel returns nothing");
  for (auto [i, type] : llvm::enumerate(getArgumentTypes())) {
    auto view = dyn_cast<ViewType>(type);
    if (!(view && view.getSpace() == Space::Global) && !type.isIndex())
      return emitOpError("T-K2: parameter ")
             << i << " must be a global view or an index, found " << type;
  }
  if (getCluster().value_or(1) < 1)
    return emitOpError("T-K3: a cluster has at least one work item, found ") << *getCluster();
  return success();
}

LogicalResult ArriveOp::verify() {
  ViewType type = getView().getType();
  if (type.getSpace() != Space::Global || !type.getElement().isInteger(32))
    return emitOpError("T-M13: a counter is an i32 of global memory, found ") << type;
  if ((*this)->getParentOfType<RoleOp>())
    return emitOpError("T-M19: all threads of the work item arrive, a role has only some of them");
  return success();
}

/// Ops between work items need a kernel that says how many run together.
static LogicalResult verifyInCluster(Operation *op) {
  auto kernel = op->getParentOfType<KernelOp>();
  if (kernel && kernel.getCluster())
    return success();
  return op->emitOpError("T-K4: stands in a kernel without 'cluster'");
}
LogicalResult ClusterRankOp::verify() { return verifyInCluster(*this); }
LogicalResult ClusterBarrierOp::verify() { return verifyInCluster(*this); }
LogicalResult PeerOp::verify() {
  if (getView().getType().getSpace() != Space::Shared)
    return emitOpError("T-K5: work items reach each other's shared memory, found ")
           << getView().getType();
  return verifyInCluster(*this);
}

//===- Memory ---------------------------------------------------------------------------------===//

LogicalResult AllocOp::verify() {
  ViewType type = getView().getType();
  if (type.getSpace() != Space::Shared || ShapedType::isDynamic(type.getShape()[0]))
    return emitOpError("T-M1: an allocation is a shared view of constant shape");
  return success();
}

LogicalResult ReinterpretOp::verify() {
  ViewType source = getSource().getType(), view = getView().getType();
  if (!source.getElement().isInteger(8) || source.getShape().size() != 1)
    return emitOpError("T-M2: the source is a one-dimensional array of bytes, found ") << source;
  if (source.getSpace() != view.getSpace())
    return emitOpError("T-M3: source and result live in the same space");
  return success();
}

static LogicalResult verifyIndices(Operation *op, ViewType view, size_t count) {
  if (count != view.getShape().size())
    return op->emitOpError("T-M4: ")
           << view.getShape().size() << " indices expected, found " << count;
  return success();
}

static LogicalResult verifyBox(Operation *op, ViewType view, ArrayRef<int64_t> sizes, TileType tile,
                               bool rowByRow = false) {
  if (view.getSpace() == Space::Tensor)
    return op->emitOpError("T-N18: tensor memory is read and written by tensor_load and "
                           "tensor_store, found ")
           << view;
  FailureOr<BoxLayout> layout = boxLayout(view, sizes, rowByRow);
  if (failed(layout))
    return op->emitOpError("T-M5: the box is not a run of equal contiguous chunks of ") << view;
  for (auto [i, size] : llvm::enumerate(sizes))
    if (size < 1 || (!ShapedType::isDynamic(view.getShape()[i]) && size > view.getShape()[i]))
      return op->emitOpError("T-M6: size ")
             << size << " of dimension " << i << " does not fit " << view;
  if (layout->count * layout->length != tile.getRows() * tile.getCols())
    return op->emitOpError("T-M7: the box has ")
           << layout->count * layout->length << " elements, " << tile << " has "
           << tile.getRows() * tile.getCols();
  Type stored = view.getElement(), element = tile.getElement();
  bool rows = tile.getLayout() == Layout::MmaA, columns = tile.getLayout() == Layout::MmaB;
  bool bits = stored.isInteger(16) ? element.isBF16() || element.isF16()
                                   : stored.isInteger(8) && isa<Float8E4M3FNType>(element);
  // FP32 rows become operands of another element on their way.
  bool narrowed = isa<LoadOp>(op) && stored.isF32() && (rows || columns) &&
                  (element.isF16() || isa<Float8E4M3FNType>(element));
  if (stored != element && !bits && !narrowed)
    return op->emitOpError("T-M8: element types differ: ") << view << " and " << tile;
  bool registers = inRegisterOrder(tile, sizes);
  if ((tile.getLayout() == Layout::PerLane || tile.getLayout() == Layout::MmaRows || registers) &&
      layout->count > 1)
    return op->emitOpError("T-M10: ") << tile << " is a contiguous box";
  if (registers)
    return success();
  ArrayRef<int64_t> box = sizes.take_back(2);
  if ((rows || columns) && (box.size() != 2 || box[0] != (rows ? tile.getRows() : tile.getCols()) ||
                            box[1] != (rows ? tile.getCols() : tile.getRows())))
    return op->emitOpError("T-M11: ") << tile << " is a box of rows of K elements";
  if ((rows || columns) && !element.isBF16() && !narrowed)
    return op->emitOpError("T-M11: rows are BF16, or FP32 that become FP16, found ") << tile;
  return success();
}

bool m3c::tile::inRegisterOrder(TileType tile, ArrayRef<int64_t> sizes) {
  return tile.getLayout() == Layout::MmaAcc ||
         (tile.getLayout() == Layout::MmaA && sizes.size() > 2);
}

LogicalResult LoadOp::verify() {
  if (failed(verifyIndices(*this, getView().getType(), getIndices().size())))
    return failure();
  return verifyBox(*this, getView().getType(), getSizes(), getResult().getType());
}

LogicalResult LoadRowsOp::verify() {
  ViewType view = getView().getType(), list = getList().getType();
  TileType tile = getResult().getType();
  if (tile.getLayout() != Layout::MmaB || view.getShape().size() != 2 ||
      !view.getElement().isInteger(16))
    return emitOpError("T-M20: rows of i16 give a tile in layout mma_b, found ")
           << view << " and " << tile;
  if (list.getShape().size() != 1 || !list.getElement().isInteger(32) || getPer() < 1)
    return emitOpError("T-M21: a list of i32 and a positive divisor expected, found ")
           << list << " per " << getPer();
  return success();
}

LogicalResult StoreTransposedOp::verify() {
  ViewType view = getView().getType();
  if (failed(verifyIndices(*this, view, getIndices().size())))
    return failure();
  if (getValue().getType().getLayout() != Layout::MmaAcc || !view.getElement().isF32())
    return emitOpError("T-M12: an accumulator and a view of f32 expected");
  if (getAcross() && (*getAcross() < 1 || view.getSpace() != Space::Shared))
    return emitOpError("T-M23: rows are shared out over work items of a cluster, in shared memory");
  return success();
}

LogicalResult StoreOp::verify() {
  if (failed(verifyIndices(*this, getView().getType(), getIndices().size())))
    return failure();
  return verifyBox(*this, getView().getType(), getSizes(), getValue().getType(), bool(getLimit()));
}

static LogicalResult verifyScalarType(Operation *op, ViewType view, Type scalar) {
  Type element = view.getElement();
  if (scalar == element || (scalar.isIndex() && element.isInteger(32)))
    return success();
  return op->emitOpError("T-M9: a scalar of ") << view << " cannot be " << scalar;
}

LogicalResult LoadScalarOp::verify() {
  if (failed(verifyIndices(*this, getView().getType(), getIndices().size())))
    return failure();
  return verifyScalarType(*this, getView().getType(), getResult().getType());
}

LogicalResult StoreScalarOp::verify() {
  if (failed(verifyIndices(*this, getView().getType(), getIndices().size())))
    return failure();
  return verifyScalarType(*this, getView().getType(), getValue().getType());
}

//===- Pipelines ------------------------------------------------------------------------------===//

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
      "T-A9: N groups are 8·N bytes, N scales (i8) and 16·N values (f32) of one row");
}

#define GET_OP_CLASSES
#include "dialects/tile/TileOps.cpp.inc"
