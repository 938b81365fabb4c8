// Verifiers of the operations of TileTensorOps.td.
#include "dialects/tile/Tile.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace m3c::tile;

static bool isView(ViewType view, Space space, ArrayRef<int64_t> shape, unsigned bits) {
  return view.getSpace() == space && view.getShape() == shape && view.getElement().isIntOrFloat() &&
         view.getElement().getIntOrFloatBitWidth() == bits;
}

/// 128 lanes of some columns.
static bool isTensorPart(ViewType view) {
  return view.getSpace() == Space::Tensor && view.getShape().size() == 2 &&
         view.getShape()[0] == 128 && view.getElement().isIntOrFloat() &&
         view.getElement().getIntOrFloatBitWidth() == 32;
}

//===- Tensor memory --------------------------------------------------------------------------===//

/// What two work items do together stands in a cluster of two, and nothing else of the kind beside
/// it.
static LogicalResult verifyPair(Operation *op, bool pair) {
  auto kernel = op->getParentOfType<KernelOp>();
  if (pair && (!kernel || kernel.getCluster().value_or(1) != 2))
    return op->emitOpError("T-N19: a pair is the two work items of a cluster, and the kernel has ")
           << (kernel ? kernel.getCluster().value_or(1) : 1) << " in one";
  WalkResult other = WalkResult::advance();
  if (kernel)
    other = kernel.walk([&](TensorMemoryOp memory) {
      return memory.getPair() == pair ? WalkResult::advance() : WalkResult::interrupt();
    });
  if (other.wasInterrupted())
    return op->emitOpError("T-N20: this is ")
           << (pair ? "of a pair of work items, tensor memory of the kernel is of one"
                    : "of one work item, tensor memory of the kernel is of a pair");
  return success();
}

LogicalResult TensorMemoryOp::verify() {
  if (failed(verifyPair(*this, getPair())))
    return failure();
  ViewType memory = getMemory().getType();
  if (!isTensorPart(memory) || memory.getShape()[1] < 32 ||
      !llvm::isPowerOf2_64(memory.getShape()[1]))
    return emitOpError("T-N1: 128 lanes of a power of two of columns, 32 or more, expected, found ")
           << memory;
  TensorFreeOp freed;
  for (Operation *user : getMemory().getUsers())
    if (auto op = dyn_cast<TensorFreeOp>(user)) {
      if (freed || op->getBlock() != (*this)->getBlock())
        return op.emitOpError("T-N2: one tensor_free stands in the block of its tensor_memory");
      freed = op;
    }
  if (!freed)
    return emitOpError("T-N2: nothing gives these columns back");
  for (Operation *user : getMemory().getUsers()) {
    Operation *here = (*this)->getBlock()->findAncestorOpInBlock(*user);
    if (here && freed->isBeforeInBlock(here))
      return user->emitOpError("T-N2: uses tensor memory after it was given back");
  }
  return success();
}

LogicalResult TensorFreeOp::verify() {
  if (getMemory().getDefiningOp<TensorMemoryOp>())
    return success();
  return emitOpError("T-N2: the result of a tensor_memory expected");
}

LogicalResult TensorPartOp::verify() {
  ViewType memory = getMemory().getType(), part = getPart().getType();
  if (!isTensorPart(memory) || !isTensorPart(part) || part.getShape()[1] > memory.getShape()[1])
    return emitOpError("T-N5: ") << part << " is no part of " << memory;
  APInt column;
  if (matchPattern(getColumn(), m_ConstantInt(&column)) &&
      column.getSExtValue() + part.getShape()[1] > memory.getShape()[1])
    return emitOpError("T-N5: columns ")
           << column.getSExtValue() << " to " << column.getSExtValue() + part.getShape()[1] - 1
           << " of " << memory << " are not there";
  return success();
}

/// Registers of a warp and the columns that they are.
static LogicalResult verifyColumns(Operation *op, TileType tile, ViewType part) {
  if (!isTensorPart(part) || tile.getLayout() != Layout::LaneRows || tile.getRows() != 32 ||
      tile.getElement() != part.getElement() || tile.getCols() != part.getShape()[1] ||
      (tile.getCols() != 16 && tile.getCols() != 32))
    return op->emitOpError("T-N6: 16 or 32 columns of tensor memory and a tile of them in layout "
                           "lane_rows expected, found ")
           << part << " and " << tile;
  return success();
}
LogicalResult TensorLoadOp::verify() {
  return verifyColumns(*this, getResult().getType(), getPart().getType());
}
LogicalResult TensorStoreOp::verify() {
  return verifyColumns(*this, getValue().getType(), getPart().getType());
}

//===- Gates ----------------------------------------------------------------------------------===//

namespace {
/// Who signals one side of a gate, and whether somebody waits for it.
struct GateSide {
  RoleOp role;
  bool signalled = false, awaited = false;
};
} // namespace

/// `one`: warp of a role, or product.
static LogicalResult noteSignal(Operation *op, GateSide &side, int64_t expected, bool one,
                                int64_t workItems) {
  auto role = op->getParentOfType<RoleOp>();
  int64_t warps = role && !one ? int64_t(role.getWarps().value_or(1)) : 1;
  if (side.signalled && side.role != role)
    return op->emitOpError("T-N4: this side of the gate is signalled by another role");
  side.role = role;
  side.signalled = true;
  int64_t signals = warps * workItems;
  if (signals != expected)
    return op->emitOpError("T-N3: ") << signals << " signals, the gate expects " << expected;
  return success();
}

LogicalResult GatesOp::verify() {
  GateSide full, empty;
  for (Operation *user : getGates().getUsers()) {
    LogicalResult good = success();
    auto side = [&](Gate which) -> GateSide & { return which == Gate::Full ? full : empty; };
    auto count = [&](Gate which) {
      return int64_t(which == Gate::Full ? getFills() : getDrains());
    };
    if (auto op = dyn_cast<GateSignalOp>(user))
      good =
          noteSignal(op, side(op.getSide()), count(op.getSide()), op.getAlone(), getPair() ? 2 : 1);
    else if (auto op = dyn_cast<GateCommitOp>(user))
      good = failed(verifyPair(*this, getPair()))
                 ? failure()
                 : noteSignal(op, side(op.getSide()), count(op.getSide()), true, 1);
    else if (auto op = dyn_cast<GateWaitOp>(user))
      side(op.getSide()).awaited = true;
    if (failed(good))
      return failure();
  }
  for (const GateSide &side : {full, empty})
    if (side.signalled != side.awaited)
      return emitOpError("T-N4: a side of the gate is ")
             << (side.awaited ? "awaited and nothing signals it" : "signalled and nothing waits");
  return success();
}

//===- Operands and products ------------------------------------------------------------------===//

LogicalResult OperandQueriesOp::verify() {
  ViewType rows = getRows().getType(), operand = getOperand().getType();
  bool stored = rows.getElement().isF32() || rows.getElement().isInteger(16);
  if (!stored || rows.getShape().size() != 2 || rows.getShape()[1] != 128)
    return emitOpError("T-N7: rows of 128 elements of f32 or BF16 expected, found ") << rows;
  if (operand.getShape().size() != 2 ||
      !isView(operand, Space::Shared, {operand.getShape()[0], 128}, 8) ||
      !llvm::is_contained({8, 16, 32}, operand.getShape()[0]))
    return emitOpError("T-N8: 8, 16 or 32 rows of 128 bytes in shared memory expected, found ")
           << operand;
  return success();
}

static LogicalResult verifySlot(Operation *op, ViewType codes, ViewType scales, StringRef product) {
  if (product != "multiply" && product != "detour")
    return op->emitOpError("T-N9: a product is 'multiply' or 'detour', found '") << product << "'";
  if (isView(codes, Space::Shared, {128, 64}, 8) && isView(scales, Space::Shared, {1024}, 8))
    return success();
  return op->emitOpError("T-N9: codes of 128 tokens of 128 dims and their scales in shared memory "
                         "expected, found ")
         << codes << " and " << scales;
}

LogicalResult TensorKeysOp::verify() {
  ViewType part = getPart().getType();
  if (!isView(part, Space::Tensor, {128, 32}, 32))
    return emitOpError("T-N10: 32 columns of tensor memory hold 128 dims, found ") << part;
  return verifySlot(*this, getCodes().getType(), getScales().getType(), getProduct());
}

LogicalResult OperandValuesOp::verify() {
  ViewType operand = getOperand().getType();
  if (!isView(operand, Space::Shared, {2, 128, 64}, 16))
    return emitOpError("T-N11: 2x128x64 elements of 16 bits in shared memory expected, found ")
           << operand;
  return verifySlot(*this, getCodes().getType(), getScales().getType(), getProduct());
}

LogicalResult OperandWeightsOp::verify() {
  TileType weights = getWeights().getType();
  if (weights.getLayout() != Layout::LaneRows || weights.getRows() != 32 ||
      weights.getCols() != 16 || !weights.getElement().isF32() || getRounded().getType() != weights)
    return emitOpError("T-N12: 16 weights of f32 in each lane expected, found ") << weights;
  if (!isView(getOperand().getType(), Space::Shared, {128, 16}, 16))
    return emitOpError("T-N12: 128x16 elements of 16 bits in shared memory expected, found ")
           << getOperand().getType();
  return success();
}

LogicalResult TensorMmaOp::verify() {
  ViewType left = getLeft().getType(), right = getRight().getType(), sums = getSums().getType();
  bool keys = isView(left, Space::Tensor, {128, 32}, 32) && right.getShape().size() == 2 &&
              isView(right, Space::Shared, {right.getShape()[0], 128}, 8);
  bool values =
      isView(left, Space::Shared, {2, 128, 64}, 16) && isView(right, Space::Shared, {128, 16}, 16);
  if (failed(verifyPair(*this, getPair())))
    return failure();
  if (!keys && (!values || getPair()))
    return emitOpError("T-N13: keys in tensor memory and queries, or values and weights expected, "
                       "found ")
           << left << " and " << right;
  int64_t columns = keys ? right.getShape()[0] * (getPair() ? 2 : 1) : 16;
  if (!isTensorPart(sums) || !sums.getElement().isF32() || sums.getShape()[1] != columns)
    return emitOpError("T-N14: the sums of ") << columns << " columns are not " << sums;
  return success();
}

//===- Rows that lanes hold -------------------------------------------------------------------===//

LogicalResult LaneNumbersOp::verify() {
  TileType out = getResult().getType();
  if (out.getLayout() == Layout::LaneRows && out.getRows() == 32 && out.getCols() == 1 &&
      out.getElement().isInteger(32))
    return success();
  return emitOpError("T-N15: 32 rows of one i32 in layout lane_rows expected, found ") << out;
}

LogicalResult ReduceLanesOp::verify() {
  TileType in = getInput().getType(), out = getResult().getType();
  if (in.getLayout() != Layout::LaneRows || in.getRows() != 32 || !in.getElement().isF32() ||
      out != TileType::get(getContext(), 1, in.getCols(), in.getElement()) ||
      !llvm::isPowerOf2_64(uint64_t(in.getCols())) || in.getCols() > 32)
    return emitOpError("T-N16: up to 32 columns of f32 that lanes hold give one row, found ")
           << in << " and " << out;
  return success();
}

static LogicalResult verifyRow(Operation *op, TileType tile, ViewType view, size_t indices) {
  if (tile.getLayout() != Layout::LaneRows || tile.getElement() != view.getElement() ||
      view.getShape().size() != indices || view.getShape().size() < 1 || tile.getCols() % 4 ||
      view.getElement().getIntOrFloatBitWidth() != 32)
    return op->emitOpError("T-N17: ") << tile << " is no row that lanes hold of " << view;
  return success();
}
LogicalResult LoadRowOp::verify() {
  if (getResult().getType().getRows() != 1)
    return emitOpError("T-N17: one row expected, found ") << getResult().getType();
  return verifyRow(*this, getResult().getType(), getView().getType(), getIndices().size());
}
LogicalResult StoreLanesOp::verify() {
  if (getValue().getType().getRows() == 32 && getView().getType().getShape().size() < 2)
    return emitOpError("T-N17: columns of a view of two dimensions expected, found ")
           << getView().getType();
  return verifyRow(*this, getValue().getType(), getView().getType(), getIndices().size());
}
