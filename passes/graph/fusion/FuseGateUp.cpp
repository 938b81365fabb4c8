// m3-fuse-gate-up: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSEGATEUP
#include "passes/graph/Passes.h.inc"

namespace {

std::optional<Group> match(m3::SwigluOp swiglu) {
  auto gate = definedOnlyFor<m3::ProjectOp>(swiglu.getGate());
  auto up = definedOnlyFor<m3::ProjectOp>(swiglu.getUp());
  if (!gate || !up || gate.getX() != up.getX())
    return std::nullopt;
  return Group{"gate_up", {gate, up, swiglu}, {gate.getX()}, {swiglu.getResult()}};
}

struct FuseGateUp : impl::M3FuseGateUpBase<FuseGateUp> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<m3::SwigluOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
