// The operations of the `plan` dialect.
#ifndef M3C_DIALECTS_PLAN_OPS_TD
#define M3C_DIALECTS_PLAN_OPS_TD

include "dialects/plan/PlanDialect.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

//===-- Module level ------------------------------------------------------------------------------===//

def Plan_WeightBufferOp : Plan_Op<"weight_buffer", [Symbol]> {
  let summary = "a device buffer made from checkpoint tensors";
  let description = [{
    Holds the recipe that turns stored tensors into the layout that kernels read. `bits` is the
    element size for `panel_words`; `row_length` counts elements along K (scales: groups);
    `panels` counts panels of 16 output rows, `abreast` those that lie side by side, so that one
    stream of memory holds them; `bytes` is the size of the finished buffer. Each piece is a
    dictionary {tensor, dtype, shape, first_panel, panel_step, dest_offset}.

    * `piece-keys`: every piece names tensor, dtype and shape.
    * `panel-bytes`: a panel buffer has `panels`·16·`row_length`·`bits`/8 bytes, a scale buffer
      `panels`·16·`row_length`; `abreast` divides `panels`.
    * `piece-fits`: the panels that a piece fills lie inside the buffer.

    ```mlir
    plan.weight_buffer @layers.0.q.scales panel_scales bits = 8 row_length = 4 panels = 1 bytes = 64
      pieces = [{tensor = "q.weight_scale_inv", dtype = "U8", shape = array<i64: 16, 4>,
                 first_panel = 0 : i64, panel_step = 1 : i64, dest_offset = 0 : i64} ]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_RecipeAttr:$recipe, Plan_Int:$bits,
                       Plan_Int:$row_length, Plan_Int:$panels,
                       DefaultValuedAttr<Plan_Int, "1">:$abreast, Plan_Int:$bytes,
                       ArrayAttr:$pieces);
  let assemblyFormat = [{
    $sym_name $recipe `bits` `=` $bits `row_length` `=` $row_length `panels` `=` $panels
    (`abreast` `=` $abreast^)? `bytes` `=` $bytes `pieces` `=` $pieces attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_CacheOp : Plan_Op<"cache"> {
  let summary = "the layout of one page of the key/value cache";
  let description = [{
    One page holds `page_tokens` tokens of every lane of every layer. For layer l and KV head h the
    K slot starts at `kv_offsets[l]` + 2h·`slot_bytes`, the V slot one slot later; the index-key slot
    at `index_offsets[l]`, −1 where the layer is dense. A module has at most one.

    * `cache-layers`: both lists have one entry per layer.
    * `cache-lanes`: all lanes of all layers lie inside the page.

    ```mlir
    plan.cache nvfp4 grid e4m3 page_tokens = 128 page_bytes = 55296 slot_bytes = 9216
      kv_offsets = [0] index_offsets = [36864]
    ```
  }];
  let arguments = (ins Plan_CacheTypeAttr:$type, Plan_CacheGridAttr:$grid, Plan_Int:$page_tokens,
                       Plan_Int:$page_bytes, Plan_Int:$slot_bytes,
                       DenseI64ArrayAttr:$kv_offsets, DenseI64ArrayAttr:$index_offsets);
  let assemblyFormat = [{
    $type `grid` $grid `page_tokens` `=` $page_tokens `page_bytes` `=` $page_bytes
    `slot_bytes` `=` $slot_bytes `kv_offsets` `=` $kv_offsets `index_offsets` `=` $index_offsets
    attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_KernelOp : Plan_Op<"kernel", [Symbol]> {
  let summary = "a kernel that exists as machine code only";
  let description = [{
    Stands for a kernel after its text was built: `params` arguments, the family that made it and
    the schedule as `m3c explain` prints it. A launch may name this, or the kernel itself where the
    module still holds it.

    ```mlir
    plan.kernel @norm_256 family "norm" params 4 schedule "rows = 1"
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$family, Plan_Int:$params,
                       DefaultValuedAttr<StrAttr, "\"\"">:$schedule);
  let assemblyFormat = [{
    $sym_name `family` $family `params` $params (`schedule` $schedule^)? attr-dict
  }];
}

def Plan_ProgramOp : Plan_Op<"program", [Symbol, NoTerminator, SingleBlock, NoRegionArguments, IsolatedFromAbove]> {
  let summary = "one step over a ragged batch, as a list of shape buckets";
  let description = [{
    Its body holds plan.bucket ops, in ascending order of rows.

    * `bucket-order`: the body holds buckets only, their rows strictly ascending.

    ```mlir
    plan.program @step {
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

//===-- Buckets and values ------------------------------------------------------------------------===//

def Plan_BucketOp : Plan_Op<"bucket", [
    HasParent<"ProgramOp">, SingleBlock, NoRegionArguments, IsolatedFromAbove]> {
  let summary = "one graph: valid for up to `rows` rows and `logit_rows` rows of logits";
  let description = [{
    The graph that the runtime records once and replays. After plan-assign-arena, `arena_bytes` and
    `arena_bytes_per_block` give the arena: bytes + blocks·(bytes per block).

    * `written-before-read`: a buffer that a launch, tap or output reads was written by an earlier
      launch.
    * `arena-disjoint`: two buffers that are live at the same launch do not overlap, for any count of
      blocks; buffers lie inside the arena.

    ```mlir
    plan.bucket rows = 1 logit_rows = 1 {
      %logits = plan.buffer "logits" size = rows * 0 + blocks * 0 + 16384
      %counts = plan.batch counts
      plan.launch @head(r %counts : !plan.pointer, w %logits : !plan.buffer) grid [4, 1, 1] label "head"
      plan.output %logits
    }
    ```
  }];
  let arguments = (ins ConfinedAttr<Plan_Int, [IntPositive]>:$rows,
                       ConfinedAttr<Plan_Int, [IntPositive]>:$logit_rows,
                       OptionalAttr<Plan_Int>:$arena_bytes,
                       OptionalAttr<Plan_Int>:$arena_bytes_per_block);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `rows` `=` $rows `logit_rows` `=` $logit_rows
    (`arena` `=` $arena_bytes^ `+` `blocks` `*` $arena_bytes_per_block)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Plan_BufferOp : Plan_Op<"buffer", [HasParent<"BucketOp">]> {
  let summary = "memory of the arena";
  let description = [{
    `size` is in bytes and affine: `rows` stands for the bucket's rows, `blocks` for the number of
    128-token blocks of the longest sequence. After plan-assign-arena the buffer lies at
    `offset` + blocks·`blocks_scale` bytes from the arena's base.

    * `size-not-negative`: no coefficient is negative, and not all are zero.
    * `offset-aligned`: offset and scale are multiples of 64.

    ```mlir
    %h = plan.buffer "hidden" size = rows * 1024 + blocks * 0 + 0
    %s = plan.buffer "scores" size = rows * 0 + blocks * 16 + 64 at 4096 + blocks * 0
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_Int:$row_bytes, Plan_Int:$block_bytes,
                       Plan_Int:$fixed_bytes, OptionalAttr<Plan_Int>:$offset,
                       OptionalAttr<Plan_Int>:$blocks_scale);
  let results = (outs Plan_Buffer:$result);
  let assemblyFormat = [{
    $name `size` `=` `rows` `*` $row_bytes `+` `blocks` `*` $block_bytes `+` $fixed_bytes
    (`at` $offset^ `+` `blocks` `*` $blocks_scale)? attr-dict
  }];
  let builders = [
    OpBuilder<(ins "llvm::StringRef":$name, "int64_t":$rowBytes, "int64_t":$blockBytes,
                   "int64_t":$fixedBytes)>
  ];
  let extraClassDeclaration = [{
    /// Bytes that do not depend on the count of blocks, in a bucket of `rows` rows.
    int64_t bytesWithoutBlocks(int64_t rows) { return getRowBytes() * rows + getFixedBytes(); }
  }];
  let hasVerifier = 1;
}

def Plan_WeightOp : Plan_Op<"weight", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "pointer into a weight buffer";
  let description = [{
    * `weight-inside`: the symbol is a plan.weight_buffer and the offset lies inside it.

    ```mlir
    %w = plan.weight @layers.0.q.scales offset 0
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$symbol, ConfinedAttr<Plan_Int, [IntNonNegative]>:$offset);
  let results = (outs Plan_Pointer:$result);
  let assemblyFormat = "$symbol `offset` $offset attr-dict";
  let builders = [OpBuilder<(ins "llvm::StringRef":$symbol, CArg<"int64_t", "0">:$offset)>];
}

def Plan_PoolOp : Plan_Op<"pool", [Pure]> {
  let summary = "pointer into the pool of cache pages: page 0, plus `offset` bytes";
  let description = [{
    ```mlir
    %kv = plan.pool offset 18432
    ```
  }];
  let arguments = (ins ConfinedAttr<Plan_Int, [IntNonNegative]>:$offset);
  let results = (outs Plan_Pointer:$result);
  let assemblyFormat = "`offset` $offset attr-dict";
}

def Plan_BatchOp : Plan_Op<"batch", [Pure]> {
  let summary = "pointer to an array that describes the step";
  let description = [{
    The arrays are those of `BatchArray` in runtime/plan/plan.fbs, of 32-bit integers.

    ```mlir
    %ids = plan.batch token_ids
    ```
  }];
  let arguments = (ins Plan_BatchArrayAttr:$array);
  let results = (outs Plan_Pointer:$result);
  let assemblyFormat = "$array attr-dict";
}

def Plan_ScalarOp : Plan_Op<"scalar", [Pure]> {
  let summary = "a 64-bit integer argument";
  let description = [{
    ```mlir
    %n = plan.scalar 256
    ```
  }];
  let arguments = (ins Plan_Int:$value);
  let results = (outs I64:$result);
  let assemblyFormat = "$value attr-dict";
}

//===-- Actions -----------------------------------------------------------------------------------===//

def Plan_LaunchOp : Plan_Op<"launch", [
    HasParent<"BucketOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs one kernel over a grid";
  let description = [{
    Arguments stand in the order of the kernel's parameters, each with the access that the kernel
    makes: `r`, `w` (all that later readers need is written) or `rw`. A grid dimension is a count or
    `blocks(n)`: one item per n blocks of the longest sequence, rounded up.

    * `kernel-exists`: the symbol is a plan.kernel or a function-like kernel with as many parameters.
    * `access-per-argument`: one access per argument; a 64-bit integer is `r`.
    * `grid-positive`: counts are at least 1.

    ```mlir
    plan.launch @attention(r %q : !plan.buffer, rw %kv : !plan.pointer, w %o : !plan.buffer)
      grid [2, blocks(1), 1] label "layers.3.attention"
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Plan_Operand>:$arguments,
                       DenseI32ArrayAttr:$access, DenseI64ArrayAttr:$grid_count,
                       DenseI64ArrayAttr:$grid_blocks_per_item, StrAttr:$label);
  let assemblyFormat = [{
    $kernel `(` custom<Arguments>($arguments, type($arguments), $access) `)`
    `grid` custom<Grid>($grid_count, $grid_blocks_per_item) `label` $label attr-dict
  }];
  let builders = [
    OpBuilder<(ins "llvm::StringRef":$kernel, "mlir::ValueRange":$arguments,
                   "llvm::ArrayRef<Access>":$access, "llvm::ArrayRef<GridDim>":$grid,
                   "llvm::StringRef":$label)>
  ];
  let extraClassDeclaration = [{
    bool reads(unsigned argument) { return getAccess()[argument] & int32_t(Access::Read); }
    bool writes(unsigned argument) { return getAccess()[argument] & int32_t(Access::Write); }
  }];
  let hasVerifier = 1;
}

def Plan_TapOp : Plan_Op<"tap", [HasParent<"BucketOp">]> {
  let summary = "an intermediate that a trace may copy out at this point";
  let description = [{
    Copies `row_bytes` per row, row after row, from the start of the buffer, after the launch before
    it.

    * `tap-after-launch`: a launch stands before it.

    ```mlir
    plan.tap experts layer = 3 row_bytes = 16 %experts
    ```
  }];
  let arguments = (ins Plan_TapKindAttr:$kind, ConfinedAttr<Plan_Int, [IntNonNegative]>:$layer,
                       ConfinedAttr<Plan_Int, [IntPositive]>:$row_bytes, Plan_Buffer:$buffer);
  let assemblyFormat = "$kind `layer` `=` $layer `row_bytes` `=` $row_bytes $buffer attr-dict";
}

def Plan_OutputOp : Plan_Op<"output", [HasParent<"BucketOp">, Terminator]> {
  let summary = "ends a bucket and names the buffer of the logits, F32 [logit rows, vocabulary]";
  let description = [{
    ```mlir
    plan.output %logits
    ```
  }];
  let arguments = (ins Plan_Buffer:$logits);
  let assemblyFormat = "$logits attr-dict";
}

#endif
