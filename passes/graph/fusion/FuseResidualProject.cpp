// m3-fuse-residual-project: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSERESIDUALPROJECT
#include "passes/graph/Passes.h.inc"

namespace {

std::optional<Group> match(arith::AddFOp add) {
  for (auto [residual, product] : bothOrders(add))
    if (auto project = definedOnlyFor<m3::ProjectOp>(product); project && residual != product)
      return Group{
          "residual_project", {project, add}, {residual, project.getX()}, {add.getResult()}};
  return std::nullopt;
}

struct FuseResidualProject : impl::M3FuseResidualProjectBase<FuseResidualProject> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<arith::AddFOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
