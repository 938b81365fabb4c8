// m3-fuse-experts-shared: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSEEXPERTSSHARED
#include "passes/graph/Passes.h.inc"

namespace {

/// h + routed, from either order of its operands.
std::optional<Group> matchRouted(arith::AddFOp add) {
  for (auto [residual, product] : bothOrders(add))
    if (auto experts = definedOnlyFor<m3::ExpertsOp>(product))
      return Group{"experts_shared",
                   {experts, add},
                   {experts.getX(), experts.getIds(), experts.getWeights(), residual},
                   {add.getResult()}};
  return std::nullopt;
}

/// The addition of the shared expert to `sum`, the only use of it.
std::pair<m3::SharedExpertOp, arith::AddFOp> sharedAfter(arith::AddFOp sum, Value rows) {
  if (!sum.getResult().hasOneUse())
    return {};
  auto last = dyn_cast<arith::AddFOp>(*sum.getResult().getUsers().begin());
  if (!last || last.getLhs() == last.getRhs())
    return {};
  auto shared = definedOnlyFor<m3::SharedExpertOp>(
      last.getLhs() == sum.getResult() ? last.getRhs() : last.getLhs());
  if (!shared || shared.getX() != rows)
    return {};
  return {shared, last};
}

std::optional<Group> match(arith::AddFOp add) {
  std::optional<Group> group = matchRouted(add);
  if (!group)
    return std::nullopt;
  if (auto [shared, last] = sharedAfter(add, group->inputs[0]); shared) {
    group->ops.push_back(shared);
    group->ops.push_back(last);
    group->outputs = {last.getResult()};
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
