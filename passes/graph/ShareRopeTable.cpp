// m3-share-rope-table: see Passes.td.
#include "passes/graph/Passes.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3SHAREROPETABLE
#include "passes/graph/Passes.h.inc"

namespace {

struct ShareRopeTable : impl::M3ShareRopeTableBase<ShareRopeTable> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    Block &block = getOperation().getBody().front();
    SmallVector<m3::RopeTableOp> first;
    for (auto table : llvm::make_early_inc_range(block.getOps<m3::RopeTableOp>())) {
      auto same = llvm::find_if(first, [&](m3::RopeTableOp other) {
        return other.getBatch() == table.getBatch() && other->getAttrs() == table->getAttrs() &&
               other.getType() == table.getType();
      });
      if (same == first.end()) {
        first.push_back(table);
        continue;
      }
      table.replaceAllUsesWith(same->getResult());
      table.erase();
      ++shared;
    }
    for (m3::RopeTableOp table : llvm::reverse(first))
      if (isa<BlockArgument>(table.getBatch()))
        table->moveBefore(&block, block.begin());
  }
};

} // namespace
} // namespace m3c::graph
