// What all fusions share: wrapping a group of operations in m3.fused, where dataflow and memory
// effects allow it.
#pragma once

#include "dialects/m3/M3.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace m3c::graph {

/// Operations of one block that are to become one m3.fused.
struct Group {
  llvm::StringRef kind;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> inputs;  ///< operands of the fused operation, in its order
  llvm::SmallVector<mlir::Value> outputs; ///< results that may have users outside, in its order
};

/// Wraps the group. Fails, without a change, if a value that is no output has a user outside, an
/// operand is not among the inputs, or an operation outside would have to run between those of the
/// group (it uses one of them and is used by another, or touches the same layer of a cache).
mlir::FailureOr<m3::FusedOp> wrap(mlir::OpBuilder &builder, const Group &group);

/// The operation that defines `value` if it is an `Op` and nothing else uses it.
template <typename Op> Op definedOnlyFor(mlir::Value value) {
  auto op = value ? value.getDefiningOp<Op>() : Op();
  return op && value.hasOneUse() ? op : Op();
}

/// The two operands of an addition in both orders.
inline llvm::SmallVector<std::pair<mlir::Value, mlir::Value>, 2>
bothOrders(mlir::arith::AddFOp add) {
  return {{add.getLhs(), add.getRhs()}, {add.getRhs(), add.getLhs()}};
}

/// Runs `match` on every `Root` operation of a function's body and wraps what it returns; gives the
/// numbers of groups and of operations in them.
template <typename Root, typename Match>
std::pair<int64_t, int64_t> fuseAll(mlir::func::FuncOp function, Match match) {
  if (function.isExternal())
    return {0, 0};
  mlir::OpBuilder builder(function.getContext());
  std::pair<int64_t, int64_t> counts{0, 0};
  llvm::SmallVector<Root> roots(function.getBody().front().getOps<Root>());
  for (Root root : roots) {
    std::optional<Group> group = match(root);
    if (!group || mlir::failed(wrap(builder, *group)))
      continue;
    ++counts.first;
    counts.second += int64_t(group->ops.size());
  }
  return counts;
}

} // namespace m3c::graph
