#include "passes/graph/fusion/Fusion.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace m3c::graph {
namespace {

/// Whether two operations must keep their order although no value passes between them.
bool conflict(Operation *a, Operation *b) {
  if (isMemoryEffectFree(a) || isMemoryEffectFree(b))
    return false;
  SmallVector<m3::CacheAccess> ofA = m3::cacheAccesses(a), ofB = m3::cacheAccesses(b);
  if (ofA.empty() || ofB.empty())
    return true; // effects of an operation that is not known
  return llvm::any_of(ofA, [&](const m3::CacheAccess &x) {
    return llvm::any_of(ofB, [&](const m3::CacheAccess &y) {
      return x.cache == y.cache && x.layer == y.layer && (x.write || y.write);
    });
  });
}

bool usesResultOf(Operation *op, const llvm::SetVector<Operation *> &others) {
  bool found = false;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      found |= others.contains(operand.getDefiningOp());
  });
  return found;
}

/// Whether `op` has to stay behind one of `others`, which precede it.
bool dependsOn(Operation *op, const llvm::SetVector<Operation *> &others) {
  return usesResultOf(op, others) ||
         llvm::any_of(others, [&](Operation *other) { return conflict(other, op); });
}

/// Operations between the first and the last of the group that have to run after it; nothing if one
/// of them also has to run before an operation of the group.
std::optional<llvm::SetVector<Operation *>> followers(ArrayRef<Operation *> ordered) {
  llvm::SetVector<Operation *> inside, after;
  for (Operation *op = ordered.front(); op; op = op->getNextNode()) {
    bool member = llvm::is_contained(ordered, op);
    if (dependsOn(op, after)) {
      if (member)
        return std::nullopt;
      after.insert(op);
    } else if (member) {
      inside.insert(op);
    } else if (dependsOn(op, inside)) {
      after.insert(op);
    }
    if (op == ordered.back())
      break;
  }
  return after;
}

bool closed(const Group &group) {
  for (Operation *op : group.ops) {
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(group.ops, operand.getDefiningOp()) &&
          !llvm::is_contained(group.inputs, operand))
        return false;
    for (Value result : op->getResults())
      if (!llvm::is_contained(group.outputs, result) &&
          llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !llvm::is_contained(group.ops, user); }))
        return false;
  }
  return true;
}

} // namespace

FailureOr<m3::FusedOp> wrap(OpBuilder &builder, const Group &group) {
  SmallVector<Operation *> ordered(group.ops);
  Block *block = ordered.front()->getBlock();
  if (!llvm::all_of(ordered, [&](Operation *op) { return op->getBlock() == block; }) ||
      !closed(group))
    return failure();
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  std::optional<llvm::SetVector<Operation *>> after = followers(ordered);
  if (!after)
    return failure();

  builder.setInsertionPointAfter(ordered.back());
  SmallVector<Location> locations;
  for (Operation *op : ordered)
    locations.push_back(op->getLoc());
  auto fused = m3::FusedOp::create(builder, builder.getFusedLoc(locations),
                                   TypeRange(ValueRange(group.outputs)), group.kind, group.inputs);
  Operation *place = fused;
  for (Operation *op : *after) {
    op->moveAfter(place);
    place = op;
  }
  Block &body = fused.getBody().front();
  auto inGroup = [&](OpOperand &use) { return llvm::is_contained(group.ops, use.getOwner()); };
  for (auto [i, result] : llvm::enumerate(fused.getOutputs()))
    Value(group.outputs[i]).replaceUsesWithIf(result, [&](OpOperand &use) {
      return !inGroup(use);
    });
  for (Operation *op : ordered)
    op->moveBefore(&body, body.end());
  for (auto [i, argument] : llvm::enumerate(body.getArguments()))
    Value(group.inputs[i]).replaceUsesWithIf(argument, inGroup);
  builder.setInsertionPointToEnd(&body);
  m3::YieldOp::create(builder, fused.getLoc(), group.outputs);
  return fused;
}

} // namespace m3c::graph
