// Passes on the `m3` dialect. Fusions match by dataflow: the order of operations does not matter, only
// who uses what; a value of the group that another operation uses as well stops them, unless it is one
// of the group's results. The unfused body stays inside `m3.fused`.
#ifndef M3C_PASSES_GRAPH_PASSES_TD
#define M3C_PASSES_GRAPH_PASSES_TD

include "mlir/Pass/PassBase.td"

class GraphFusion<string argument> : Pass<argument, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::m3c::m3::M3Dialect"];
  let statistics = [Statistic<"fused", "fused", "groups that were fused">,
                    Statistic<"removed", "operations-removed", "operations that moved into groups">];
}

def M3LegalizeEncodings : Pass<"m3-legalize-encodings", "::mlir::ModuleOp"> {
  let summary = "Records a stand-in for every weight encoding that the target does not take";
  let description = [{
    A weight whose encoding is not in `supported` is read as BF16, or as F32 where BF16 is not supported
    either; both hold the products of codes and block scales exactly. The weight gets a
    `#m3.demotion`, which `m3c explain` prints. A stand-in that is not supported is an error.
  }];
  let options = [ListOption<"supported", "supported", "std::string",
                            "weight encodings that the target's kernels read; all when empty">];
  let statistics = [Statistic<"demoted", "demoted", "weights with a stand-in">];
}

def M3ShareRopeTable : Pass<"m3-share-rope-table", "::mlir::func::FuncOp"> {
  let summary = "Computes each table of cosines and sines once, at the start of the step";
  let description = [{
    The table depends on the batch alone. Every `m3.rope_table` of the same batch, theta and rotary
    dimension is replaced by one at the start of the function.
  }];
  let statistics = [Statistic<"shared", "shared", "tables that were replaced">];
}

def M3FuseQkvInsert : GraphFusion<"m3-fuse-qkv-rope-insert"> {
  let summary = "Fuses the projections of a layer's attention and index with all up to the cache";
  let description = [{
    Kind "qkv_rope_insert" (n, table, cache, batch) -> (q[, index q]): starting from `m3.cache_write`, the
    projections, head norms, rotations and roundings that give its keys, values and index keys, and those
    of the same rows that give the layer's query and index query.
  }];
}

def M3FuseIndexTopk : GraphFusion<"m3-fuse-index-topk"> {
  let summary = "Fuses index scores with the choice of blocks";
  let description = [{
    Kind "index_topk" (index q, cache, batch) -> (blocks): an `m3.block_topk` and the `m3.index_score` that
    only it uses. The scores, one per row, head and block, are then never stored.
  }];
}

def M3FuseResidualProject : GraphFusion<"m3-fuse-residual-project"> {
  let summary = "Fuses a projection with the addition of the residual stream";
  let description = [{
    Kind "residual_project" (h, x) -> (h + x Wᵀ): an addition with one operand that is a projection used by
    nothing else.
  }];
}

def M3FuseGateUp : GraphFusion<"m3-fuse-gate-up"> {
  let summary = "Fuses gate and up projections with the activation";
  let description = [{
    Kind "gate_up" (n) -> (swiglu(n Wgᵀ, n Wuᵀ)): an `m3.swiglu_oai` of two projections of the same rows.
  }];
}

def M3FuseNormRoute : GraphFusion<"m3-fuse-norm-route"> {
  let summary = "Fuses the norm before the experts with the router";
  let description = [{
    Kind "norm_route" (h) -> (n, ids, weights): an `m3.route` and the norm of its rows. The normed rows
    stay a result, since the experts read them.
  }];
}

def M3FuseExpertsShared : GraphFusion<"m3-fuse-experts-shared"> {
  let summary = "Fuses routed experts, shared expert and residual";
  let description = [{
    Kind "experts_shared" (n, ids, weights, h) -> ((h + routed) + shared): the additions, the experts and, where
    the model has one, the shared expert of the same rows. Without a shared expert the group is
    h + routed. Conversions of h and the shared expert's output to F32 and the rounding of the sum belong
    to the group.
  }];
}

def M3FuseResidualNorm : GraphFusion<"m3-fuse-residual-norm"> {
  let summary = "Fuses an addition of the residual stream with the norm after it";
  let description = [{
    Kind "residual_norm" (h, x) -> (h + x, norm(h + x)): for additions that no projection absorbed, as after a
    reduction over ranks. The sum stays a result.
  }];
}

def M3FuseNormQuantize : GraphFusion<"m3-fuse-norm-quantize"> {
  let summary = "Fuses a norm with the rounding of its result";
  let description = [{
    Kind "norm_quantize" (h) -> (quantised norm): for targets whose products take quantised rows. The norm has
    no other user.
  }];
}

def M3Unfuse : Pass<"m3-unfuse", "::mlir::func::FuncOp"> {
  let summary = "Replaces fused operations by their bodies";
  let options = [ListOption<"kinds", "kinds", "std::string", "kinds to unfuse; all when empty">];
  let statistics = [Statistic<"unfused", "unfused", "groups that were unfused">];
}

def M3FormBuckets : Pass<"m3-form-buckets", "::mlir::ModuleOp"> {
  let summary = "Decides for which numbers of rows graphs are recorded";
  let description = [{
    Sets `m3.buckets`, the ascending list of row counts; a step runs in the smallest bucket that holds its
    rows. The list is the powers of two up to `max-rows`, or `rows` where given.
  }];
  let options = [
    Option<"maxRows", "max-rows", "int64_t", "512", "rows of the largest bucket">,
    ListOption<"rows", "rows", "int64_t", "row counts, ascending, instead of powers of two">];
}

def M3Measure : Pass<"m3-measure", "::mlir::func::FuncOp"> {
  let summary = "Counts the launches of a step and the bytes that it moves";
  let description = [{
    Sets three attributes of the function. `m3.launches`: operations that compute, a fused group being one.
    `m3.row_bytes`: bytes per row that operations read and write as tensors outside of groups; block
    scores, one per 128 tokens, are counted for `blocks` blocks. `m3.weight_bytes`: stored bytes of the
    weights that a step of one row reads, of a stack as many experts as a row chooses.
  }];
  let options = [Option<"blocks", "blocks", "int64_t", "16", "blocks of a row's context">];
}

#endif
