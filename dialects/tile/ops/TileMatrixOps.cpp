// Verifiers of the operations of TileMatrixOps.td.
#include "dialects/tile/ops/Verify.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace m3c::tile;

//===- Memory ---------------------------------------------------------------------------------===//

LogicalResult GatherOp::verify() {
  ViewType view = getView().getType();
  TileType numbers = getNumbers().getType(), out = getResult().getType();
  if (view.getShape().size() != 1 || failed(verifyIndices(*this, view, getIndices().size())))
    return emitOpError("T-M18: a view of one dimension and an index into it expected");
  if (!numbers.getElement().isInteger(32) || out.getElement() != view.getElement() ||
      numbers.getRows() != out.getRows() || numbers.getCols() != out.getCols() ||
      numbers.getLayout() != out.getLayout())
    return emitOpError("T-M14: numbers are i32, the result has their shape and the view's element");
  return success();
}

/// Conditions in the shape of `value`, and a view of one dimension.
static LogicalResult verifyTaken(Operation *op, TileType value, ViewType view, size_t indices,
                                 TileType takes) {
  if (view.getShape().size() != 1 || indices != 1 || view.getElement() != value.getElement())
    return op->emitOpError("T-M24: a view of one dimension, of the tile's element, expected");
  if (!takes.getElement().isInteger(1) || takes.getRows() != value.getRows() ||
      takes.getCols() != value.getCols())
    return op->emitOpError("T-M25: one condition for each element expected, found ") << takes;
  return success();
}

LogicalResult CompactOp::verify() {
  if (getValue().getType().getCols() != 32)
    return emitOpError("T-M26: rows of 32 columns expected, found ") << getValue().getType();
  return verifyTaken(*this, getValue().getType(), getView().getType(), getIndices().size(),
                     getTakes().getType());
}

LogicalResult CountOp::verify() {
  TileType takes = getTakes().getType();
  if (takes.getCols() != 32 || !takes.getElement().isInteger(1))
    return emitOpError("T-M26: rows of 32 conditions expected, found ") << takes;
  return success();
}

LogicalResult StoreColumnsOp::verify() {
  TileType value = getValue().getType();
  ViewType view = getView().getType();
  bool row = value.getLayout() == Layout::Lanes && value.getRows() == 1;
  if ((value.getLayout() != Layout::MmaColumns && !row) || value.getElement() != view.getElement())
    return emitOpError("T-M15: ") << value << " is no row of elements of " << view;
  return verifyIndices(*this, view, getIndices().size());
}

LogicalResult StoreSpreadOp::verify() {
  TileType value = getValue().getType();
  ViewType view = getView().getType();
  if (value.getLayout() != Layout::MmaAcc || !value.getElement().isF32() || value.getCols() % 16 ||
      !(view.getElement().isInteger(16) || view.getElement().isF32()) ||
      view.getShape().size() != 2)
    return emitOpError("T-M16: an accumulator of pairs of columns and rows of BF16 or FP32 "
                       "expected, found ")
           << value << " and " << view;
  if (int64_t(getSpread()) * 8 > view.getShape()[1])
    return emitOpError("T-M17: eight columns, ") << getSpread() << " apart, do not fit " << view;
  return verifyIndices(*this, view, getIndices().size());
}

LogicalResult FillStageOp::verify() {
  auto ring = getRing().getDefiningOp<RingOp>();
  if (ring && !ring.getAsync())
    return emitOpError("T-R5: only the stages of an asynchronous ring are filled by copies");
  if (getView().getType().getSpace() != Space::Global)
    return emitOpError("T-R6: a stage is copied from global memory");
  return verifyIndices(*this, getView().getType(), getIndices().size());
}

LogicalResult RingMemoryOp::verify() {
  ViewType view = getView().getType();
  if (view.getSpace() != Space::Shared || ShapedType::isDynamic(view.getShape()[0]) ||
      view.getByteSize() > getRing().getType().getByteSize())
    return emitOpError("T-R7: ") << view << " does not fit the memory of " << getRing().getType();
  return success();
}

//===- Roles ----------------------------------------------------------------------------------===//

int64_t RoleOp::firstWarp() {
  int64_t first = 0;
  for (auto role : (*this)->getBlock()->getOps<RoleOp>()) {
    if (role == *this)
      break;
    first += int64_t(role.getWarps().value_or(0));
  }
  return first;
}

/// The role of `roles` that `op` stands in.
static RoleOp roleOf(Operation *op, RolesOp roles) {
  auto role = op->getParentOfType<RoleOp>();
  while (role && role->getParentOp() != roles)
    role = role->getParentOfType<RoleOp>();
  return role;
}

bool RolesOp::hasBudgets() {
  return llvm::any_of(getBody().getOps<RoleOp>(),
                      [](RoleOp role) { return role.getRegisters().has_value(); });
}

/// Registers of roles that have them; what a chip asks of the warps is no business of the dialect.
static LogicalResult verifyBudgets(RolesOp roles, KernelOp kernel) {
  for (auto role : roles.getBody().getOps<RoleOp>()) {
    if (!role.getRegisters())
      return roles.emitOpError("T-S2: registers stand on every role or on none");
    int64_t registers = int64_t(*role.getRegisters());
    if (registers < 24 || registers > 256 || registers % 8)
      return role.emitOpError("T-S2: registers are multiples of 8 from 24 to 256, found ")
             << registers;
  }
  if (!kernel)
    return success();
  if (!kernel.getResidents())
    return roles.emitOpError("T-S2: the kernel has no 'residents', which say how many registers "
                             "a thread begins with");
  if (roles->getParentOfType<scf::ForOp>())
    return roles.emitOpError("T-S4: registers are given once, not in a loop");
  WalkResult others = kernel.walk([&](RolesOp other) {
    return other != roles && other.hasBudgets() ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (others.wasInterrupted())
    return roles.emitOpError("T-S4: other roles of the kernel are given registers as well");
  return success();
}

LogicalResult RolesOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  int64_t warps = 0;
  for (Operation &child : getBody().front()) {
    auto role = dyn_cast<RoleOp>(child);
    if (!role || !role.getWarps())
      return child.emitOpError("T-S1: roles that say their warps stand here");
    warps += int64_t(*role.getWarps());
  }
  if (hasBudgets() && failed(verifyBudgets(*this, kernel)))
    return failure();
  if (kernel && warps != int64_t(kernel.getWarps().value_or(1)))
    return emitOpError("T-S1: the roles have ")
           << warps << " warps, the kernel has " << kernel.getWarps().value_or(1);
  llvm::MapVector<Value, std::pair<RoleOp, RoleOp>> rings; // who fills, who drains
  WalkResult walk = getBody().walk([&](Operation *op) {
    auto note = [&](RoleOp &owner) {
      RoleOp role = roleOf(op, *this);
      if (owner && owner != role) {
        op->emitOpError("T-S3: the ring is used on this side by another role");
        return WalkResult::interrupt();
      }
      owner = role;
      return WalkResult::advance();
    };
    if (auto use = dyn_cast<AcquireOp>(op))
      return note(rings[use.getRing()].first);
    if (auto use = dyn_cast<CommitOp>(op))
      return note(rings[use.getRing()].first);
    if (auto use = dyn_cast<WaitOp>(op))
      return note(rings[use.getRing()].second);
    if (auto use = dyn_cast<ReleaseOp>(op))
      return note(rings[use.getRing()].second);
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  for (auto &[ring, sides] : rings)
    if (!sides.first || !sides.second || sides.first == sides.second)
      return emitOpError("T-S3: a ring is filled by one role and drained by one other");
  return success();
}

//===- Operands -------------------------------------------------------------------------------===//

LogicalResult AnyOp::verify() {
  TileType in = getInput().getType();
  bool row = in.getLayout() == Layout::LaneRows && in.getRows() == 1;
  if ((in.getLayout() != Layout::MmaRows && !row) || !in.getElement().isInteger(1))
    return emitOpError("T-E14: conditions in layout mma_rows, or of one row in layout lane_rows, "
                       "expected, found ")
           << in;
  return success();
}

LogicalResult ToOperandOp::verify() {
  TileType in = getInput().getType(), out = getResult().getType();
  bool accumulator = in.getLayout() == Layout::MmaAcc &&
                     (in.getCols() == 16 || in.getCols() == 32 || in.getCols() == 128) &&
                     in.getElement().isF32() && out.getLayout() == Layout::MmaA &&
                     out.getCols() == in.getCols() && out.getElement().isF16();
  bool operand = in.getElement().isBF16() && in.getLayout() == out.getLayout() &&
                 (in.getLayout() == Layout::MmaA || in.getLayout() == Layout::MmaB) &&
                 in.getRows() == out.getRows() && in.getCols() == out.getCols() &&
                 (out.getElement().isF16() || isa<Float8E4M3FNType>(out.getElement()));
  if (!(accumulator || operand))
    return emitOpError(
               "T-A20: an accumulator of 16, 32 or 128 columns gives an FP16 operand of its "
               "shape, a BF16 operand one in FP16 or E4M3, found ")
           << in << " and " << out;
  return success();
}

LogicalResult CodeTableOp::verify() {
  ViewType view = getView().getType();
  if (view.getSpace() != Space::Shared || view.getShape() != ArrayRef<int64_t>{256, 8} ||
      !view.getElement().isInteger(8))
    return emitOpError("T-A14: a table is 256x8 bytes in shared memory, found ") << view;
  return success();
}

LogicalResult LoadCachedOp::verify() {
  TileType out = getResult().getType();
  ViewType codes = getCodes().getType();
  bool e2m1 = getFormat() == Format::E2M1, e4m3 = getFormat() == Format::E4M3;
  if (!e2m1 && !e4m3)
    return emitOpError("T-A15: e2m1 or e4m3 expected");
  if (e2m1 != bool(getScales()) || (getTable() && getProduct()) ||
      e2m1 != (getTable() || getProduct()))
    return emitOpError("T-A16: e2m1 has scales and a table or a product, e4m3 has none of them");
  auto tokens = [](int64_t count) { return count == 16 || count == 32; };
  bool values = out.getLayout() == Layout::MmaB && tokens(out.getRows());
  int64_t dims = out.getLayout() == Layout::MmaA || values ? out.getCols() : out.getRows();
  bool counted = out.getLayout() == Layout::MmaA || values ||
                 (out.getLayout() == Layout::MmaB && tokens(out.getCols()));
  bool element = out.getElement().isF16() || (!values && isa<Float8E4M3FNType>(out.getElement()));
  if (!counted || !element)
    return emitOpError("T-A17: 16 or 32 tokens as an operand in FP16, keys also in E4M3, "
                       "expected, found ")
           << out;
  if (codes.getSpace() != Space::Shared || codes.getShape().size() != 2 ||
      !codes.getElement().isInteger(8) || codes.getShape()[1] != (e2m1 ? dims / 2 : dims))
    return emitOpError("T-A18: ") << codes << " holds no tokens of " << dims << " dims in shared "
                                  << "memory";
  if (bool(getLimit()) != values)
    return emitOpError("T-A19: values have a limit, keys have none");
  StringRef product = getProduct().value_or("multiply");
  if (product != "multiply" && product != "detour" && (product != "exact" || values))
    return emitOpError("T-A22: a product is 'multiply' or 'detour', of keys also 'exact', found '")
           << product << "'";
  return success();
}
