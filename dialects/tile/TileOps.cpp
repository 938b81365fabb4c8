// Verifiers and custom syntax of the tile operations. Constraint labels (T-…) are those of the op
// descriptions and of the tests.
#include "dialects/tile/ops/Verify.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

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

LogicalResult m3c::tile::verifyIndices(Operation *op, ViewType view, size_t count) {
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
  TileType tile = getResult().getType();
  bool halved = getView().getType().getElement().isF32() && tile.getElement().isF16() &&
                tile.getLayout() == Layout::MmaA;
  if (getPart() && (!halved || *getPart() > 1))
    return emitOpError("T-M29: part 0 or 1 of f32 rows as a left operand of f16 expected, found ")
           << *getPart() << " of " << getView().getType() << " as " << tile;
  return verifyBox(*this, getView().getType(), getSizes(), tile);
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

#define GET_OP_CLASSES
#include "dialects/tile/TileOps.cpp.inc"
