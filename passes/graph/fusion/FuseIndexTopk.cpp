// m3-fuse-index-topk: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSEINDEXTOPK
#include "passes/graph/Passes.h.inc"

namespace {

std::optional<Group> match(m3::BlockTopkOp topk) {
  auto score = definedOnlyFor<m3::IndexScoreOp>(topk.getScores());
  if (!score || score.getBatch() != topk.getBatch())
    return std::nullopt;
  return Group{"index_topk",
               {score, topk},
               {score.getQuery(), score.getCache(), score.getBatch()},
               {topk.getBlocks()}};
}

struct FuseIndexTopk : impl::M3FuseIndexTopkBase<FuseIndexTopk> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<m3::BlockTopkOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
