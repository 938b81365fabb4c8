// m3-fuse-residual-norm: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSERESIDUALNORM
#include "passes/graph/Passes.h.inc"

namespace {

std::optional<Group> match(m3::NormOp norm) {
  auto add = norm.getX().getDefiningOp<arith::AddFOp>();
  if (!add)
    return std::nullopt;
  return Group{"residual_norm",
               {add, norm},
               {add.getLhs(), add.getRhs()},
               {add.getResult(), norm.getResult()}};
}

struct FuseResidualNorm : impl::M3FuseResidualNormBase<FuseResidualNorm> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<m3::NormOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
