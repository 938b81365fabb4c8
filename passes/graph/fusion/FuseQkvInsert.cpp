// m3-fuse-qkv-rope-insert: see Passes.td.
#include "passes/graph/Passes.h"
#include "passes/graph/fusion/Fusion.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FUSEQKVINSERT
#include "passes/graph/Passes.h.inc"

namespace {

/// Projection, head norm, rotation and perhaps rounding of one kind of head.
struct Heads {
  m3::ProjectOp project;
  m3::HeadNormOp norm;
  m3::RopeOp rope;
  m3::QuantizeOp quantize; ///< null where nothing is rounded
};

/// The chain that ends with a rotation. Other users of its values are found when it is wrapped.
std::optional<Heads> chainTo(Value value) {
  Heads heads;
  heads.rope = value.getDefiningOp<m3::RopeOp>();
  if (heads.rope)
    heads.norm = heads.rope.getX().getDefiningOp<m3::HeadNormOp>();
  if (heads.norm)
    heads.project = heads.norm.getX().getDefiningOp<m3::ProjectOp>();
  return heads.project ? std::optional(heads) : std::nullopt;
}

/// The same for a query, whose last operation may round.
std::optional<Heads> queryChain(Value query) {
  auto quantize = query.getDefiningOp<m3::QuantizeOp>();
  std::optional<Heads> heads = chainTo(quantize ? quantize.getX() : query);
  if (heads)
    heads->quantize = quantize;
  return heads;
}

/// Queries of the attention and of the index that read the layer which `write` stores.
struct Queries {
  Value attention, index;
};

Queries queriesOf(m3::CacheWriteOp write) {
  Queries queries;
  auto sameLayer = [&](auto read) { return read.getLayer() == write.getLayer(); };
  for (Operation *user : write.getCache().getUsers()) {
    if (auto op = dyn_cast<m3::SparseAttentionOp>(user); op && sameLayer(op))
      queries.attention = op.getQuery();
    if (auto op = dyn_cast<m3::DenseAttentionOp>(user); op && sameLayer(op))
      queries.attention = op.getQuery();
    if (auto op = dyn_cast<m3::IndexScoreOp>(user); op && sameLayer(op))
      queries.index = op.getQuery();
    if (auto fused = dyn_cast<m3::FusedOp>(user))
      for (auto op : fused.getBody().getOps<m3::IndexScoreOp>())
        if (auto query = dyn_cast<BlockArgument>(op.getQuery()); query && sameLayer(op))
          queries.index = fused.getInputs()[query.getArgNumber()];
  }
  return queries;
}

/// Adds a chain to the group if it starts from the same rows and rotates by the same table.
bool add(Group &group, std::optional<Heads> heads, Value rows, Value table) {
  if (!heads || heads->project.getX() != rows || heads->rope.getTable() != table)
    return false;
  group.ops.append({heads->project, heads->norm, heads->rope});
  if (heads->quantize)
    group.ops.push_back(heads->quantize);
  return true;
}

std::optional<Group> match(m3::CacheWriteOp write) {
  std::optional<Heads> keys = chainTo(write.getKeys());
  auto values = write.getValues().getDefiningOp<m3::ProjectOp>();
  Queries queries = queriesOf(write);
  if (!keys || !values || !queries.attention)
    return std::nullopt;
  Value rows = values.getX(), table = keys->rope.getTable();
  Group group{"qkv_rope_insert", {}, {rows, table, write.getCache(), write.getBatch()}, {}};
  group.outputs.push_back(queries.attention);
  bool whole =
      add(group, queryChain(queries.attention), rows, table) && add(group, keys, rows, table);
  if (whole && write.getIndexKeys()) {
    whole = queries.index && add(group, queryChain(queries.index), rows, table) &&
            add(group, chainTo(write.getIndexKeys()), rows, table);
    group.outputs.push_back(queries.index);
  }
  if (!whole)
    return std::nullopt;
  group.ops.append({values, write});
  return group;
}

struct FuseQkvInsert : impl::M3FuseQkvInsertBase<FuseQkvInsert> {
  void runOnOperation() override {
    auto [groups, operations] = fuseAll<m3::CacheWriteOp>(getOperation(), match);
    fused += groups;
    removed += operations;
  }
};

} // namespace
} // namespace m3c::graph
