// m3-unfuse: see Passes.td.
#include "passes/graph/Passes.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3UNFUSE
#include "passes/graph/Passes.h.inc"

namespace {

struct Unfuse : impl::M3UnfuseBase<Unfuse> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<m3::FusedOp> chosen;
    getOperation().walk([&](m3::FusedOp fused) {
      if (kinds.empty() || llvm::is_contained(kinds, fused.getKind()))
        chosen.push_back(fused); // inner ones first
    });
    IRRewriter rewriter(&getContext());
    for (m3::FusedOp fused : chosen)
      m3::unfuse(rewriter, fused);
    unfused += chosen.size();
  }
};

} // namespace
} // namespace m3c::graph
