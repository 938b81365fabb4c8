// m3-fuse-norm-quantize: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSENORMQUANTIZE
#include "passes/graph/Passes.h.inc"

namespace {

std::optional<Group> match(m3::QuantizeOp quantize) {
  auto norm = definedOnlyFor<m3::NormOp>(quantize.getX());
  if (!norm)
    return std::nullopt;
  return Group{"norm_quantize", {norm, quantize}, {norm.getX()}, {quantize.getResult()}};
}

struct FuseNormQuantize : impl::M3FuseNormQuantizeBase<FuseNormQuantize> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<m3::QuantizeOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
