// m3-fuse-experts-shared: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSEEXPERTSSHARED
#include "passes/graph/Passes.h.inc"

namespace {

/// What `value` was before it became F32 for nothing but this sum; the conversion joins the group.
Value beforeWidening(Value value, SmallVectorImpl<Operation *> &ops) {
  auto widen = definedOnlyFor<arith::ExtFOp>(value);
  if (!widen)
    return value;
  ops.push_back(widen);
  return widen.getIn();
}

/// The only user of `value` if it is an `Op`.
template <typename Op> Op onlyUser(Value value) {
  return value.hasOneUse() ? dyn_cast<Op>(*value.getUsers().begin()) : Op();
}

/// h + routed, from either order of its operands.
std::optional<Group> matchRouted(arith::AddFOp add) {
  for (auto [residual, product] : bothOrders(add))
    if (auto experts = definedOnlyFor<m3::ExpertsOp>(product)) {
      Group group{"experts_shared", {experts, add}, {}, {add.getResult()}};
      Value before = beforeWidening(residual, group.ops);
      group.inputs = {experts.getX(), experts.getIds(), experts.getWeights(), before};
      return group;
    }
  return std::nullopt;
}

/// The addition of the shared expert of `rows` to `sum`, the only use of it, joins the group.
void addShared(Group &group, arith::AddFOp sum, Value rows) {
  auto last = onlyUser<arith::AddFOp>(sum.getResult());
  if (!last || last.getLhs() == last.getRhs())
    return;
  SmallVector<Operation *> ops = {last};
  Value other = last.getLhs() == sum.getResult() ? last.getRhs() : last.getLhs();
  auto shared = definedOnlyFor<m3::SharedExpertOp>(beforeWidening(other, ops));
  if (!shared || shared.getX() != rows)
    return;
  ops.push_back(shared);
  group.ops.append(ops);
  group.outputs = {last.getResult()};
}

std::optional<Group> match(arith::AddFOp add) {
  std::optional<Group> group = matchRouted(add);
  if (!group)
    return std::nullopt;
  addShared(*group, add, group->inputs[0]);
  if (auto narrow = onlyUser<arith::TruncFOp>(group->outputs[0])) {
    group->ops.push_back(narrow);
    group->outputs = {narrow.getResult()};
  }
  return group;
}

struct FuseExpertsShared : impl::M3FuseExpertsSharedBase<FuseExpertsShared> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<arith::AddFOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
