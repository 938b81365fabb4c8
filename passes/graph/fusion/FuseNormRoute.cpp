// m3-fuse-norm-route: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSENORMROUTE
#include "passes/graph/Passes.h.inc"

namespace {

std::optional<Group> match(m3::RouteOp route) {
  auto norm = route.getX().getDefiningOp<m3::NormOp>();
  if (!norm)
    return std::nullopt;
  return Group{"norm_route",
               {norm, route},
               {norm.getX()},
               {norm.getResult(), route.getIds(), route.getWeights()}};
}

struct FuseNormRoute : impl::M3FuseNormRouteBase<FuseNormRoute> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<m3::RouteOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
