// Every constraint of a verifier has a label (M3-Cnn) that stands here, in the verifier's message and
// in its test. Each operation's example is parsed by a test.
#ifndef M3C_DIALECTS_M3_M3OPS
#define M3C_DIALECTS_M3_M3OPS

include "dialects/m3/M3Types.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def M3_GridAttr : EnumAttr<M3_Dialect, M3_Grid, "grid">;

// Cached keys and values are one resource: reads and writes of it keep their order.
def M3_CacheResource : Resource<"::m3c::m3::CacheResource">;
defvar ReadsCache = Arg<M3_CacheType, "the cache", [MemRead<M3_CacheResource>]>;
defvar WritesCache = Arg<M3_CacheType, "the cache", [MemWrite<M3_CacheResource>]>;

// One row per token.
def M3_Rows : 2DTensorOf<[F32, BF16]>;
def M3_F32Rows : 2DTensorOf<[F32]>; // what is never rounded: rotary table, weights of experts, logits
def M3_RowVector : 1DTensorOf<[F32]>;
def M3_BlockScores : 3DTensorOf<[F32]>;  // [rows, KV heads, blocks]
def M3_Selection : 3DTensorOf<[I32]>;    // [rows, KV heads, k]
def M3_Ids : 1DTensorOf<[I32]>;
def M3_RowIds : 2DTensorOf<[I32]>;

class M3_Op<string mnemonic, list<Trait> traits = []> : Op<M3_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

// An operation that names weights; their shapes are checked when symbols are resolved.
class M3_WeightUser<string mnemonic, list<Trait> traits = []>
    : M3_Op<mnemonic, traits # [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let hasVerifier = 0;
}

def M3_WeightOp : M3_Op<"weight", [Symbol]> {
  let summary = "declares a weight and the checkpoint tensors it is made of";
  let description = [{
    M3-C04: the parts are those that the encoding needs: values; for `mxfp8` a block scale; for
    `nvfp4` and `nvfp4_packed` a block scale and a global scale, and their stored shapes agree with the
    weight's. An input scale may be present and is not used.
    M3-C05: the tensor names of a stack of experts hold `{e}`, others do not.

    A weight without parts stands for values that a test or a synthetic run supplies. `demotion` is
    set by `m3-legalize-encodings`, `sharding` by the parallel passes.

    ```mlir
    m3.weight @layers.0.q_proj : !m3.weight<512x128, mxfp8> {parts = [
      #m3.part<values, "model.layers.0.self_attn.q_proj.weight", "F8_E4M3", [512, 128]>,
      #m3.part<block_scale, "model.layers.0.self_attn.q_proj.weight_scale_inv", "U8", [512, 4]>]}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<M3_WeightType>:$type,
    DefaultValuedAttr<M3_PartArrayAttr, "{}">:$parts, OptionalAttr<M3_DemotionAttr>:$demotion,
    OptionalAttr<M3_ShardingAttr>:$sharding);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let extraClassDeclaration = "WeightType weightType() { return ::llvm::cast<WeightType>(getType()); }";
}

def M3_EmbedOp : M3_WeightUser<"embed"> {
  let summary = "row of the embedding table for each token id of the batch";
  let description = [{
    M3-C06: the weight is a matrix [vocabulary, hidden] and hidden is the width of the result.

    ```mlir
    %h = m3.embed %batch, @embed : tensor<?x128xf32>
    ```
  }];
  let arguments = (ins M3_BatchType:$batch, FlatSymbolRefAttr:$weight);
  let results = (outs M3_Rows:$rows);
  let assemblyFormat = "$batch `,` $weight attr-dict `:` type($rows)";
}

def M3_RopeTableOp : M3_Op<"rope_table", [Pure]> {
  let summary = "cosines and sines of each row's position";
  let description = [{
    Row r holds cos(p·f_i) for i in 0..rotary/2, then sin(p·f_i), where p is the row's position and
    f_i = 1 / theta^(2i/rotary). The power, its reciprocal and the angle p·f_i are F32 values.

    M3-C07: rotary is even and positive, and is the width of the result; theta is positive.

    ```mlir
    %cs = m3.rope_table %batch {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins M3_BatchType:$batch, F64Attr:$theta, I64Attr:$rotary);
  let results = (outs M3_F32Rows:$table);
  let assemblyFormat =
    "$batch ` ` `{` `theta` `=` $theta `,` `rotary` `=` $rotary `}` attr-dict `:` type($table)";
}

def M3_NormOp : M3_WeightUser<"norm"> {
  let summary = "Gemma RMS norm: x · rsqrt(mean(x²) + eps) · (1 + w)";
  let description = [{
    M3-C08: the weight is a vector as long as a row; eps is positive. The result may have other
    elements than the operand, not other rows.

    ```mlir
    %n = m3.norm %h, @layers.0.input_norm {eps = 1.0e-6} : tensor<?x128xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, FlatSymbolRefAttr:$weight, F64Attr:$eps);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = [{$x `,` $weight ` ` `{` `eps` `=` $eps `}` attr-dict
    `:` type($x) `` custom<ResultRows>(type($result), ref(type($x)))}];
}

def M3_ProjectOp : M3_WeightUser<"project"> {
  let summary = "matrix product with a weight: y = x Wᵀ";
  let description = [{
    M3-C09: the weight is a matrix [N,K]; K is the width of the operand, N that of the result.

    ```mlir
    %q = m3.project %n, @layers.0.q_proj : tensor<?x128xf32> -> tensor<?x512xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, FlatSymbolRefAttr:$weight);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x) `->` type($result)";
}

def M3_HeadNormOp : M3_WeightUser<"head_norm"> {
  let summary = "Gemma RMS norm of each head of a row";
  let description = [{
    M3-C10: heads divides the width of a row; the weight is a vector as long as a head; eps is
    positive.
    M3-C35: the result is as wide as the operand and has no storage encoding; its element type, written
    where it is another one, says what it is rounded to.

    ```mlir
    %qn = m3.head_norm %q, @layers.0.q_norm {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, FlatSymbolRefAttr:$weight, I64Attr:$heads, F64Attr:$eps);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = [{$x `,` $weight ` ` `{` `heads` `=` $heads `,` `eps` `=` $eps `}` attr-dict
    `:` type($x) `` custom<ResultRows>(type($result), ref(type($x)))}];
}

def M3_RopeOp : M3_Op<"rope", [Pure]> {
  let summary = "rotates the first dimensions of each head by the row's position (NeoX half split)";
  let description = [{
    With r = width of the table: for i in 0..r/2, y[i] = x[i]·cos_i − x[i+r/2]·sin_i and
    y[i+r/2] = x[i+r/2]·cos_i + x[i]·sin_i; the other dimensions of the head pass through.

    M3-C11: heads divides the width of a row; the rotary dimension is even and not larger than a head.
    M3-C35 holds.

    ```mlir
    %qr = m3.rope %qn, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, M3_F32Rows:$table, I64Attr:$heads);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = [{$x `,` $table ` ` `{` `heads` `=` $heads `}` attr-dict
    `:` type($x) `,` type($table) `` custom<ResultRows>(type($result), ref(type($x)))}];
}

def M3_QuantizeOp : M3_Op<"quantize", [Pure]> {
  let summary = "rounds each value to a quantisation grid";
  let description = [{
    The result has the type of the operand with the encoding `#m3.storage<grid>`. Grids:
    `bf16`; `e4m3` (BF16, then E4M3 with unit scale, saturating at ±448); `nvfp4` (BF16, then E2M1 with
    an E4M3 scale per 16 values, docs/numerics.md); `nvfp4_e4m3` (as `nvfp4`, then each product of code and
    scale is rounded to E4M3); `mxfp8` (E4M3 with a power-of-two scale 2^ceil(log2(amax/448)) per 32
    values, no BF16 step).

    M3-C12: the group of the grid divides the width of a row, and the encoding of the result names the
    grid.

    ```mlir
    %qq = m3.quantize %qr {grid = e4m3} : tensor<?x512xf32> -> tensor<?x512xf32, #m3.storage<e4m3>>
    ```
  }];
  let arguments = (ins M3_Rows:$x, M3_GridAttr:$grid);
  let results = (outs M3_Rows:$result);
  let assemblyFormat =
    "$x ` ` `{` `grid` `=` $grid `}` attr-dict `:` type($x) `->` type($result)";
}

def M3_DequantizeOp : M3_Op<"dequantize", [Pure]> {
  let summary = "the same values, no longer bound to a grid";
  let description = [{
    M3-C13: the operand has a storage encoding; the result has the same shape and none.

    ```mlir
    %x = m3.dequantize %qq : tensor<?x512xf32, #m3.storage<e4m3>> -> tensor<?x512xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def M3_CacheWriteOp : M3_Op<"cache_write"> {
  let summary = "stores the keys, values and index keys of the batch's rows in the cache";
  let description = [{
    Values are rounded as the cache's storage says (`bf16`: BF16; `fp8`: BF16, then E4M3; `nvfp4`: BF16,
    then NVFP4 codes). Row r goes to its sequence's page, at its position.

    M3-C14: the widths are KV heads × head size (keys, values) and the index size (index key); the layer
    exists in the cache.
    M3-C15: a layer is written once in a block, and before any operation of the block that reads it.
    M3-C33: in a function marked `m3.step` every layer that is read was written before.

    ```mlir
    m3.cache_write %cache, %batch, %k, %v, %ik {layer = 0}
      : !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 4, kv_heads = 2, head_dim = 128, index_dim = 128>,
        tensor<?x256xf32>, tensor<?x256xf32>, tensor<?x128xf32>
    ```
  }];
  let arguments = (ins WritesCache:$cache, M3_BatchType:$batch, M3_Rows:$keys, M3_Rows:$values,
    Optional<M3_Rows>:$index_keys, I64Attr:$layer);
  let assemblyFormat = [{$cache `,` $batch `,` $keys `,` $values (`,` $index_keys^)?
    ` ` `{` `layer` `=` $layer `}` attr-dict
    `:` type($cache) `,` type($keys) `,` type($values) (`,` type($index_keys)^)?}];
}

def M3_IndexScoreOp : M3_Op<"index_score"> {
  let summary = "largest product of the index query with the index keys of each block";
  let description = [{
    score[r,g,b] = max over the cached tokens j of block b, j ≤ position of r, of ⟨query[r,g], key[j]⟩;
    -inf for a block after the row's own. A NaN product makes the score NaN.

    M3-C16: there is one index query per KV head of the cache, each as wide as the index key, and the
    cache has index keys.
    M3-C17: with `nvfp4` and `fp8` storage the index query lies on the E4M3 grid.

    ```mlir
    %s = m3.index_score %iq, %cache, %batch {layer = 0}
      : tensor<?x256xf32, #m3.storage<e4m3>>, !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 4, kv_heads = 2, head_dim = 128, index_dim = 128>
      -> tensor<?x2x?xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$query, ReadsCache:$cache, M3_BatchType:$batch, I64Attr:$layer);
  let results = (outs M3_BlockScores:$scores);
  let assemblyFormat = [{$query `,` $cache `,` $batch ` ` `{` `layer` `=` $layer `}` attr-dict
    `:` type($query) `,` type($cache) `->` type($scores)}];
}

def M3_BlockTopkOp : M3_Op<"block_topk", [Pure]> {
  let summary = "the k best blocks of each row and KV head";
  let description = [{
    Order: score descending, block id ascending, NaN last. The `local` newest blocks up to the row's own
    and the first `init` blocks are in regardless of their score. The ids of a list are ascending; unused
    places at its end hold -1.

    M3-C18: the newest block is kept (local ≥ 1) and init ≥ 0.
    M3-C19: k is at least init + local and is the last dimension of the result; the KV heads agree.

    ```mlir
    %sel = m3.block_topk %s, %batch {k = 16, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x16xi32>
    ```
  }];
  let arguments = (ins M3_BlockScores:$scores, M3_BatchType:$batch, I64Attr:$k, I64Attr:$init,
    I64Attr:$local);
  let results = (outs M3_Selection:$blocks);
  let assemblyFormat = [{$scores `,` $batch ` ` `{` `k` `=` $k `,` `init` `=` $init `,` `local` `=` $local `}`
    attr-dict `:` type($scores) `->` type($blocks)}];
}

class M3_AttentionOp<string mnemonic> : M3_Op<mnemonic> {
  let results = (outs M3_Rows:$result);
}

def M3_SparseAttentionOp : M3_AttentionOp<"sparse_attention"> {
  let summary = "causal attention to the tokens of the selected blocks";
  let description = [{
    Query head h uses KV head h / (heads / KV heads). Keys: cached tokens j ≤ position of the row whose
    block is selected for that KV head.

    M3-C20: the width of the query is a multiple of KV heads × head size, that is, the query heads are a
    multiple of the KV heads; the result is as wide.
    M3-C21: the selection has the KV heads of the cache.
    M3-C22: with `nvfp4` storage the query lies on the E4M3 grid.
    M3-C23: the scale is positive and finite.

    ```mlir
    %o = m3.sparse_attention %qq, %cache, %sel, %batch {layer = 0, scale = 0.08838834764831845}
      : tensor<?x512xf32, #m3.storage<e4m3>>, !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 4, kv_heads = 2, head_dim = 128, index_dim = 128>, tensor<?x2x16xi32>
      -> tensor<?x512xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$query, ReadsCache:$cache, M3_Selection:$blocks, M3_BatchType:$batch,
    I64Attr:$layer, F64Attr:$scale);
  let assemblyFormat = [{$query `,` $cache `,` $blocks `,` $batch
    ` ` `{` `layer` `=` $layer `,` `scale` `=` $scale `}` attr-dict
    `:` type($query) `,` type($cache) `,` type($blocks) `->` type($result)}];
}

def M3_DenseAttentionOp : M3_AttentionOp<"dense_attention"> {
  let summary = "causal attention to all cached tokens of the row's sequence";
  let description = [{
    As `m3.sparse_attention` with every block selected; M3-C20, M3-C22 and M3-C23 hold.

    ```mlir
    %o = m3.dense_attention %qr, %kv, %batch {layer = 0, scale = 0.08838834764831845}
      : tensor<?x512xf32>, !m3.cache<kv = f32, grid = exact, page = 128, layers = 4, kv_heads = 2, head_dim = 128, index_dim = 0>
      -> tensor<?x512xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$query, ReadsCache:$cache, M3_BatchType:$batch, I64Attr:$layer,
    F64Attr:$scale);
  let assemblyFormat = [{$query `,` $cache `,` $batch
    ` ` `{` `layer` `=` $layer `,` `scale` `=` $scale `}` attr-dict
    `:` type($query) `,` type($cache) `->` type($result)}];
}

def M3_SwigluOp : M3_Op<"swiglu_oai", [Pure, AllTypesMatch<["gate", "up"]>]> {
  let summary = "clamped SwiGLU: (u' + 1) · g' · sigmoid(alpha · g')";
  let description = [{
    g' = min(g, limit), u' = clamp(u, -limit, limit).

    M3-C24: alpha and limit are positive and finite.
    M3-C35 holds.

    ```mlir
    %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x512xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$gate, M3_Rows:$up, F64Attr:$alpha, F64Attr:$limit);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = [{$gate `,` $up ` ` `{` `alpha` `=` $alpha `,` `limit` `=` $limit `}` attr-dict
    `:` type($gate) `` custom<ResultRows>(type($result), ref(type($gate)))}];
}

def M3_RouteOp : M3_WeightUser<"route"> {
  let summary = "chooses the experts of each row and their weights";
  let description = [{
    s = sigmoid(x Wᵀ); chosen are the top_k experts by s + bias (ties: lower id); the weight of a chosen
    expert is scale · s / Σ s over the chosen ones. Ids are ascending. Logits, scores and weights are F32,
    whatever the element type of the rows.

    M3-C25: the router bias only selects: it is an F32 vector with one element per expert, it never
    enters a weight, and no other operation names it.
    M3-C26: 1 ≤ top_k ≤ experts; both results have top_k columns; the router is a matrix
    [experts, width of the operand].
    M3-C27: the scale is positive and finite.

    ```mlir
    %e, %w = m3.route %n, @layers.2.router bias @layers.2.router_bias {top_k = 2, scale = 2.0}
      : tensor<?x128xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, FlatSymbolRefAttr:$router, OptionalAttr<FlatSymbolRefAttr>:$bias,
    I64Attr:$top_k, F64Attr:$scale);
  let results = (outs M3_RowIds:$ids, M3_F32Rows:$weights);
  let assemblyFormat = [{$x `,` $router (`bias` $bias^)?
    ` ` `{` `top_k` `=` $top_k `,` `scale` `=` $scale `}` attr-dict
    `:` type($x) `->` type($ids) `,` type($weights)}];
  let hasVerifier = 1;
}

def M3_ExpertsOp : M3_WeightUser<"experts"> {
  let summary = "weighted sum of the chosen experts of each row";
  let description = [{
    y = Σ over the chosen experts in the order of the ids of weight · down(swiglu(gate x, up x)). The
    activation and each expert's output are rounded to the element type of x; gate and up products, the
    weighted terms and their sum are F32, and the sum is rounded to the element type of the result.

    M3-C28: the three weights are stacks with the same number of experts, gate and up [E, I, width],
    down [E, width, I]; ids and weights have the same shape.
    M3-C24 and M3-C35 hold.

    ```mlir
    %y = m3.experts %n, %e, %w, @layers.2.experts.gate, @layers.2.experts.up, @layers.2.experts.down
      {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, M3_RowIds:$ids, M3_F32Rows:$weights, FlatSymbolRefAttr:$gate,
    FlatSymbolRefAttr:$up, FlatSymbolRefAttr:$down, F64Attr:$alpha, F64Attr:$limit);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = [{$x `,` $ids `,` $weights `,` $gate `,` $up `,` $down
    ` ` `{` `alpha` `=` $alpha `,` `limit` `=` $limit `}` attr-dict
    `:` type($x) `,` type($ids) `,` type($weights) `` custom<ResultRows>(type($result), ref(type($x)))}];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$x, "::mlir::Value":$ids,
    "::mlir::Value":$weights, "::llvm::StringRef":$gate, "::llvm::StringRef":$up, "::llvm::StringRef":$down, "double":$alpha,
    "double":$limit)>];
}

def M3_SharedExpertOp : M3_WeightUser<"shared_expert", [SameOperandsAndResultType]> {
  let summary = "down(swiglu(gate x, up x)) with one set of weights for every row";
  let description = [{
    The activation is rounded to the element type of x; gate and up products are F32.

    M3-C29: gate and up are matrices [I, width], down is [width, I]. M3-C24 holds.

    ```mlir
    %y = m3.shared_expert %n, @layers.2.shared.gate, @layers.2.shared.up, @layers.2.shared.down
      {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, FlatSymbolRefAttr:$gate, FlatSymbolRefAttr:$up,
    FlatSymbolRefAttr:$down, F64Attr:$alpha, F64Attr:$limit);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = [{$x `,` $gate `,` $up `,` $down
    ` ` `{` `alpha` `=` $alpha `,` `limit` `=` $limit `}` attr-dict `:` type($x)}];
}

def M3_GatherRowsOp : M3_Op<"gather_rows", [Pure, AllTypesMatch<["x", "result"]>]> {
  let summary = "the rows whose logits the batch asks for";
  let description = [{
    ```mlir
    %last = m3.gather_rows %n, %batch : tensor<?x128xf32>
    ```
  }];
  let arguments = (ins M3_Rows:$x, M3_BatchType:$batch);
  let results = (outs M3_Rows:$result);
  let assemblyFormat = "$x `,` $batch attr-dict `:` type($x)";
  let hasVerifier = 0;
}

def M3_ArgmaxOp : M3_Op<"argmax", [Pure]> {
  let summary = "index of the largest element of each row; ties: the lowest index";
  let description = [{
    ```mlir
    %t = m3.argmax %logits : tensor<?x512xf32> -> tensor<?xi32>
    ```
  }];
  let arguments = (ins M3_F32Rows:$logits);
  let results = (outs M3_Ids:$ids);
  let assemblyFormat = "$logits attr-dict `:` type($logits) `->` type($ids)";
  let hasVerifier = 0;
}

def M3_SampleOp : M3_Op<"sample", [Pure, AllTypesMatch<["temperature", "uniform"]>]> {
  let summary = "draws a token from softmax(logits / temperature) by a given uniform number";
  let description = [{
    The token is the first whose cumulative probability, in order of ids, exceeds the row's number in
    [0, 1). Temperature 0 means argmax. The numbers come from the request's seed, so that a draw does not
    depend on the rest of the batch.

    ```mlir
    %t = m3.sample %logits, %temperature, %uniform : tensor<?x512xf32>, tensor<?xf32> -> tensor<?xi32>
    ```
  }];
  let arguments = (ins M3_F32Rows:$logits, M3_RowVector:$temperature, M3_RowVector:$uniform);
  let results = (outs M3_Ids:$ids);
  let assemblyFormat = [{$logits `,` $temperature `,` $uniform attr-dict
    `:` type($logits) `,` type($temperature) `->` type($ids)}];
  let hasVerifier = 0;
}

def M3_FusedOp : M3_Op<"fused", [IsolatedFromAbove, SingleBlock,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "operations that one kernel family computes together";
  let description = [{
    The body is the unfused computation and defines the result; operands are mapped to block arguments.
    The effects on the cache are those of the body.

    M3-C31: operands and block arguments, and results and the operands of `m3.yield`, agree in number
    and type; the kind is not empty.

    ```mlir
    %h1 = m3.fused "residual_project"(%a = %h : tensor<?x128xf32>, %b = %o : tensor<?x512xf32>) -> (tensor<?x128xf32>) {
      %p = m3.project %b, @layers.0.o_proj : tensor<?x512xf32> -> tensor<?x128xf32>
      %sum = arith.addf %a, %p : tensor<?x128xf32>
      m3.yield %sum : tensor<?x128xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$kind, Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$results, "::llvm::StringRef":$kind,
    "::mlir::ValueRange":$inputs)>];
}

def M3_YieldOp : Op<M3_Dialect, "yield", [Pure, Terminator, HasParent<"FusedOp">]> {
  let summary = "ends the body of `m3.fused` and gives its results";
  let arguments = (ins Variadic<AnyType>:$results);
  let assemblyFormat = "($results^ `:` type($results))? attr-dict";
}

class M3_Collective<string mnemonic, list<Trait> traits = []> : M3_Op<mnemonic, traits # [Pure]> {
  let arguments = (ins M3_Rows:$x, StrAttr:$group, I64Attr:$ranks);
  let results = (outs M3_Rows:$result);
  let assemblyFormat =
    "$x ` ` `{` `group` `=` $group `,` `ranks` `=` $ranks `}` attr-dict `:` type($x) `->` type($result)";
}

def M3_AllReduceOp : M3_Collective<"all_reduce"> {
  let summary = "sum over the ranks of a group";
  let description = [{
    M3-C32: ranks is positive, the group has a name, and the result's width follows from the operand's:
    the same here, ranks times it for `m3.all_gather`, a rank's share for `m3.reduce_scatter`.

    ```mlir
    %y = m3.all_reduce %h {group = "tp", ranks = 4} : tensor<?x128xf32> -> tensor<?x128xf32>
    ```
  }];
}

def M3_AllGatherOp : M3_Collective<"all_gather"> {
  let summary = "rows of all ranks of a group side by side";
  let description = [{
    M3-C32 holds.

    ```mlir
    %y = m3.all_gather %h {group = "tp", ranks = 4} : tensor<?x128xf32> -> tensor<?x512xf32>
    ```
  }];
}

def M3_ReduceScatterOp : M3_Collective<"reduce_scatter"> {
  let summary = "a rank's slice of the sum over the ranks of a group";
  let description = [{
    M3-C32 holds.

    ```mlir
    %y = m3.reduce_scatter %h {group = "tp", ranks = 4} : tensor<?x128xf32> -> tensor<?x32xf32>
    ```
  }];
}

#endif
