// Verifiers of the operations of TileSharedOps.td.
#include "dialects/tile/Tile.h"

using namespace mlir;
using namespace m3c::tile;

/// [stages, N, 64] or, as one stage, [N, 64] of BF16 codes.
static bool isStage(ViewType view, size_t rank) {
  ArrayRef<int64_t> shape = view.getShape();
  return shape.size() == rank && view.getElement().isInteger(16) && shape[rank - 1] == 64 &&
         MmaSharedOp::isPossible(shape[rank - 2]);
}

/// Sums of products under way are nobody's.
static LogicalResult verifyUnderWay(Operation *op, Value sums) {
  for (Operation *user : sums.getUsers())
    if (!isa<MmaSharedOp, MmaWaitOp, scf::YieldOp, scf::ForOp>(user))
      return op->emitOpError("T-G3: ") << user->getName()
                                       << " takes sums of products under way; wait for them with "
                                          "tile.mma_wait";
  return success();
}

LogicalResult PackRowsOp::verify() {
  ViewType x = getX().getType(), stages = getStages().getType();
  if (x.getShape().size() != 2 || !x.getElement().isInteger(16) || x.getShape()[1] % 64)
    return emitOpError("T-G1: rows of BF16 codes (i16), a multiple of 64 in each, expected, found ")
           << x;
  if (!isStage(stages, 3))
    return emitOpError("T-G2: stages of 64, 128 or 256 rows of 64 codes (i16) expected, found ")
           << stages;
  if (getList()) {
    auto list = cast<ViewType>(getList().getType());
    if (list.getShape().size() != 1 || !list.getElement().isInteger(32) || getPer().value_or(0) < 1)
      return emitOpError("T-G8: a list of i32 and a positive divisor expected, found ")
             << list << " per " << getPer().value_or(0);
  }
  int64_t count = int64_t(getCount()), rows = stages.getShape()[1];
  if (count < 8 || count > rows || count % 8)
    return emitOpError("T-G5: a count of rows that is a multiple of 8, at most ")
           << rows << ", expected, found " << count;
  return success();
}

/// Parts of 64 k of an operand of 128, with as many rows as keys or values have.
static constexpr int64_t slotTokens = 128, keyRows = slotTokens, valueRows = slotTokens + 8;
static bool isSlotOperand(ViewType view, int64_t rows) {
  return view.getSpace() == Space::Shared && view.getElement().isInteger(16) &&
         view.getShape() == ArrayRef<int64_t>{2, rows, 64};
}

static LogicalResult verifyOfSlot(MmaSharedOp op) {
  TileType a = op.getA().getType(), acc = op.getAcc().getType();
  ViewType right = op.getRight().getType();
  bool keys = isSlotOperand(right, keyRows) && a.getElement().isBF16();
  bool values = isSlotOperand(right, valueRows) && a.getElement().isF16();
  if (!keys && !values)
    return op.emitOpError("T-G9: keys (2x128x64, BF16) or values (2x136x64, FP16) in shared memory "
                          "expected, found ")
           << right << " and " << a;
  if (a.getLayout() != Layout::MmaA || a.getCols() != 128)
    return op.emitOpError("T-G6: a left operand of 16 rows and 128 k expected, found ") << a;
  if (acc.getLayout() != Layout::MmaAcc || !acc.getElement().isF32() ||
      acc.getCols() != right.getShape()[1])
    return op.emitOpError("T-G7: an accumulator of 16 rows and ")
           << right.getShape()[1] << " columns expected, found " << acc;
  return verifyUnderWay(op, op.getResult());
}

LogicalResult MmaSharedOp::verify() {
  if (isOfSlot())
    return verifyOfSlot(*this);
  TileType a = getA().getType(), acc = getAcc().getType();
  ViewType right = getRight().getType();
  if (right.getSpace() != Space::Shared || !isStage(right, 2))
    return emitOpError("T-G2: a stage of 64, 128 or 256 rows of 64 codes (i16) in shared memory "
                       "expected, found ")
           << right;
  if (a.getLayout() != Layout::MmaA || !a.getElement().isBF16() || a.getRows() != 16 ||
      a.getCols() != 64)
    return emitOpError("T-G6: a left operand of 16 rows and 64 k in BF16 expected, found ") << a;
  if (acc.getLayout() != Layout::MmaAcc || !acc.getElement().isF32() || acc.getRows() != 16 ||
      acc.getCols() != right.getShape()[0])
    return emitOpError("T-G7: an accumulator of 16 rows and ")
           << right.getShape()[0] << " columns expected, found " << acc;
  return verifyUnderWay(*this, getResult());
}

LogicalResult MmaWaitOp::verify() {
  if (getLeaves() > 1)
    return emitOpError("T-G4: leaves ") << getLeaves() << " products under way, at most one";
  return getLeaves() ? verifyUnderWay(*this, getResult()) : success();
}

LogicalResult ShareSlotOp::verify() {
  ViewType codes = getCodes().getType();
  bool e2m1 = getFormat() == Format::E2M1, e4m3 = getFormat() == Format::E4M3;
  if ((!e2m1 && !e4m3) || e2m1 != bool(getScales()) || e2m1 != bool(getTable()))
    return emitOpError("T-G10: e2m1 with scales and a table, or e4m3 with none of them, expected");
  if (codes.getShape() != ArrayRef<int64_t>{slotTokens, e2m1 ? 64 : 128} ||
      !codes.getElement().isInteger(8))
    return emitOpError("T-G11: ") << codes << " holds no 128 tokens of 128 dims";
  if (!isSlotOperand(getOperand().getType(), getLimit() ? valueRows : keyRows))
    return emitOpError("T-G9: keys (2x128x64) or, with a limit, values (2x136x64) of i16 in shared "
                       "memory expected, found ")
           << getOperand().getType();
  return success();
}

LogicalResult FromOperandOp::verify() {
  TileType in = getInput().getType(), out = getResult().getType();
  if (in.getLayout() == Layout::MmaA && in.getElement().isF16() &&
      out.getLayout() == Layout::MmaAcc && out.getElement().isF32() &&
      in.getCols() == out.getCols())
    return success();
  return emitOpError("T-A25: a left operand in FP16 gives an accumulator of its shape, found ")
         << in << " and " << out;
}
