#include "passes/kernel/Families.h"

namespace m3c::kernel {

namespace {
/// One row per family: the op, or the kind of an `m3.fused`, that it lowers.
struct Row {
  llvm::StringLiteral op, kind;
  Family lower;
};
constexpr Row rows[] = {
    {"m3.embed", "", lowerEmbed},
    {"m3.rope_table", "", lowerRopeTable},
    {"m3.norm", "", lowerNorm},
    {"m3.gather_rows", "", lowerGatherRows},
    {"m3.project", "", lowerProject},
    {"m3.fused", "residual_project", lowerResidualProject},
    {"m3.fused", "gate_up", lowerGateUp},
    {"m3.fused", "qkv_rope_insert", lowerQkvInsert},
    {"m3.fused", "index_topk", lowerIndexTopk},
    {"m3.sparse_attention", "", lowerSparseAttention},
    {"m3.dense_attention", "", lowerDenseAttention},
    {"m3.fused", "norm_route", lowerNormRoute},
    {"m3.fused", "experts_shared", lowerExpertsShared},
    {"arith.addf", "", lowerAdd},
    {"arith.extf", "", lowerConvert},
    {"arith.truncf", "", lowerConvert},
    {"m3.swiglu_oai", "", lowerSwiglu},
    {"m3.quantize", "", lowerQuantize},
    {"m3.head_norm", "", lowerHeadNorm},
    {"m3.rope", "", lowerRope},
    {"m3.cache_write", "", lowerCacheWrite},
    {"m3.index_score", "", lowerIndexScore},
    {"m3.block_topk", "", lowerBlockTopk},
    {"m3.route", "", lowerRoute},
    {"m3.experts", "", lowerExperts},
    {"m3.shared_expert", "", lowerSharedExpert},
};
} // namespace

Family findFamily(mlir::Operation *op) {
  auto fused = llvm::dyn_cast<m3::FusedOp>(op);
  for (const Row &row : rows)
    if (op->getName().getStringRef() == row.op && (!fused || fused.getKind() == row.kind))
      return row.lower;
  return nullptr;
}

} // namespace m3c::kernel
