#ifndef M3C_TILE_OPS_TD
#define M3C_TILE_OPS_TD

include "dialects/tile/TileDialect.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

def Tile_Scalar : AnyTypeOf<[F32, F64, I8, I16, I32, I64, Index, I1]>;

//===- Kernel ---------------------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [IsolatedFromAbove, FunctionOpInterface]> {
  let summary = "one kernel: parameters, work-item body, schedule";
  let description = [{
    The body runs once per work item of a three-dimensional grid. Parameters are views (pointers) and
    64-bit scalars, in launch order. `family` names the builder, `schedule` is the dictionary of
    choices that it was built with, `shared_bytes` is filled in by `tile-assign-shared`. With `warps`, so
    many warps run a work item together, each of them the whole body; `tile.warp_id` tells them apart,
    shared memory and `tile.barrier` join them. With `cluster`, so many consecutive work items of the first
    grid axis run side by side and reach each other's shared memory: `tile.cluster_rank`, `tile.peer`,
    `tile.cluster_barrier`. `residents` says how many work items a multiprocessor
    is to hold at once: registers are given out accordingly. Where its roles change them, `registers` says
    how many a thread begins with; `tile-select-atoms` sets it. `chip` names the chip that the kernel was
    lowered for where that is not the one that a pass is run for: a target may lack kernels of its own.

    Example:
    ```mlir
    tile.kernel @twice(%x: !tile.view<?x16xf32>) attributes {family = "example", schedule = {}} {
      %i = tile.block_id x
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%i, %c0] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
      %d = tile.map (%v : !tile.tile<1x16xf32>) -> !tile.tile<1x16xf32> {
      ^bb0(%a: f32):
        %s = arith.addf %a, %a : f32
        tile.yield %s : f32
      }
      tile.store %d, %x[%i, %c0] sizes [1, 16] : !tile.tile<1x16xf32>, !tile.view<?x16xf32>
      tile.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       StrAttr:$family, DictionaryAttr:$schedule,
                       OptionalAttr<I64Attr>:$warps, OptionalAttr<I64Attr>:$cluster,
                       OptionalAttr<I64Attr>:$residents, OptionalAttr<I64Attr>:$registers,
                       OptionalAttr<StrAttr>:$chip,
                       OptionalAttr<I64Attr>:$shared_bytes,
                       OptionalAttr<StrAttr>:$plain_sibling,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type,
                                 "::llvm::StringRef":$family,
                                 "::mlir::DictionaryAttr":$schedule)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Terminator, Pure, HasParent<"KernelOp">]> {
  let summary = "end of a kernel";
  let assemblyFormat = "attr-dict";
}

def Tile_BlockIdOp : Tile_Op<"block_id", [Pure]> {
  let summary = "this work item's index on a grid axis";
  let arguments = (ins Tile_AxisAttr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
}

def Tile_WarpIdOp : Tile_Op<"warp_id", [Pure]> {
  let summary = "this warp's number in its work item";
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_ClusterRankOp : Tile_Op<"cluster_rank", [Pure]> {
  let summary = "this work item's number in its cluster";
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

//===- Memory ---------------------------------------------------------------------------------===//

def Tile_AllocOp : Tile_Op<"alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "an on-chip buffer that lives as long as the work item";
  let description = [{ `offset` (bytes in the work item's shared memory) is set by `tile-assign-shared`. }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Tile_ViewType:$view);
  let assemblyFormat = "attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_ReinterpretOp : Tile_Op<"reinterpret", [Pure]> {
  let summary = "a typed view at a byte offset of an untyped array";
  let description = [{
    For pages of a cache: the offset is a 64-bit byte count, `page · page_stride + slot offset`.
  }];
  let arguments = (ins Tile_ViewType:$source, Index:$byteOffset);
  let results = (outs Tile_ViewType:$view);
  let assemblyFormat = "$source `[` $byteOffset `]` attr-dict `:` type($source) `->` type($view)";
  let hasVerifier = 1;
}

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments]> {
  let summary = "memory to registers";
  let description = [{
    Reads the box of `sizes` at `indices`; its elements, row-major, are the elements of the tile,
    row-major. The box is a run of equal chunks: contiguous elements, repeated along one dimension.

    A tile in layout `per_lane` is a contiguous box in which runs of 16 bytes alternate between the
    lanes. One in layout `mma_a` is a box of BF16 rows (i16 elements), or of f32 that become f16, one in layout
    `mma_b` the transpose of one; with `limit`, rows whose index in the view's first dimension is not below it read as the last
    one that is. An accumulator lies in the order of registers: a contiguous box [columns/8, 32, 4], of
    each eight columns and lane four elements. `mma_rows` are 16 contiguous elements.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$view, Variadic<Index>:$indices,
                       Optional<Index>:$limit, DenseI64ArrayAttr:$sizes);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` `sizes` $sizes (`limit` $limit^)? attr-dict `:` type($view) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$view,
                                 "::mlir::ValueRange":$indices, "::llvm::ArrayRef<int64_t>":$sizes),
                            [{ build($_builder, $_state, result, view, indices, ::mlir::Value(), sizes); }]>];
  let hasVerifier = 1;
}

def Tile_LoadRowsOp : Tile_Op<"load_rows"> {
  let summary = "listed rows to the right operand of a matrix instruction";
  let description = [{
    Column n of the tile is 64 elements from `column` on of row `list[place + n] / per` of the view; places
    from `limit` on read as the last before it.

    ```mlir
    %b = tile.load_rows %x[%k] by %list[%place] per 4 limit %end
        : !tile.view<?x128xi16>, !tile.view<?xi32> -> !tile.tile<64x8xbf16, mma_b>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$view, Index:$column,
                       Arg<Tile_ViewType, "", [MemRead]>:$list, Index:$place, Index:$limit,
                       I64Attr:$per);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $view `[` $column `]` `by` $list `[` $place `]` `per` $per `limit` $limit attr-dict
    `:` type($view) `,` type($list) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [AttrSizedOperandSegments]> {
  let summary = "registers to memory";
  let description = [{
    The inverse of `tile.load`. With `rows limit`, chunk r of the box is written only if its index in the
    view's first dimension is below the limit: the tail of a ragged batch.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices, Optional<Index>:$limit,
                       DenseI64ArrayAttr:$sizes);
  let assemblyFormat = [{
    $value `,` $view `[` $indices `]` `sizes` $sizes (`limit` $limit^)? attr-dict
    `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_StoreTransposedOp : Tile_Op<"store_transposed"> {
  let summary = "an accumulator to memory, its columns as rows";
  let description = [{
    `view[row + n, col + m] = acc[m, n]` for a tile in layout `mma_acc`: each column of the product, a
    row of the batch, becomes a run of outputs. `across` work items of a cluster share the rows: row n is
    row n / across of that view in the shared memory of work item n modulo across.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices, OptionalAttr<I64Attr>:$across);
  let assemblyFormat = [{
    $value `,` $view `[` $indices `]` (`across` $across^)? attr-dict `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_ScatterOp : Tile_Op<"scatter", [AllTypesMatch<["value", "places"]>]> {
  let summary = "each column of a row to a place of its own";
  let description = [{ `view[places[i]] = value[i]` where `places[i]` is not negative; the places differ. }];
  let arguments = (ins Tile_TileType:$value, Tile_TileType:$places,
                       Arg<Tile_ViewType, "", [MemWrite]>:$view, Variadic<Index>:$indices);
  let assemblyFormat = [{
    $value `at` $places `,` $view `[` $indices `]` attr-dict `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_LoadScalarOp : Tile_Op<"load_scalar"> {
  let summary = "one element";
  let description = [{ i8 elements are unsigned bytes; an `index` result widens an i32 element. }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$view, Variadic<Index>:$indices);
  let results = (outs Tile_Scalar:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_StoreScalarOp : Tile_Op<"store_scalar"> {
  let summary = "one element";
  let description = [{ An `index` value is narrowed to an i32 element. }];
  let arguments = (ins Tile_Scalar:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices);
  let assemblyFormat = "$value `,` $view `[` $indices `]` attr-dict `:` type($value) `,` type($view)";
  let hasVerifier = 1;
}

def Tile_CopyOp : Tile_Op<"copy"> {
  let summary = "starts to bring a run of memory near";
  let description = [{
    Asynchronous and without a result: where the target has no copy engine it is a prefetch into the
    cache. `bytes` is the length from the addressed element.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead, MemWrite]>:$view, Variadic<Index>:$indices,
                       I64Attr:$bytes);
  let assemblyFormat = "$view `[` $indices `]` `bytes` $bytes attr-dict `:` type($view)";
}

def Tile_BarrierOp : Tile_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all threads of the work item have reached this point";
  let description = [{ In a role: its threads; `whole`: all, every role comes to as many of them. }];
  let arguments = (ins UnitAttr:$whole);
  let assemblyFormat = "(`whole` $whole^)? attr-dict";
}

def Tile_ArriveOp : Tile_Op<"arrive"> {
  let summary = "counts work items in; true in the last of them";
  let description = [{
    Adds this work item to a counter of global memory. In the one that makes it `expected` the result is
    true, what the others stored to global memory before they arrived is seen, and the counter is zero
    again. All threads of the work item take part and get the same result.

    ```mlir
    %last = tile.arrive %counters[%part] of %items : !tile.view<?xi32>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead, MemWrite]>:$view, Variadic<Index>:$indices,
                       Index:$expected);
  let results = (outs I1:$result);
  let assemblyFormat = "$view `[` $indices `]` `of` $expected attr-dict `:` type($view)";
  let hasVerifier = 1;
}

include "dialects/tile/TileLaunchOps.td"

//===- Pipelines ------------------------------------------------------------------------------===//

def Tile_RingOp : Tile_Op<"ring", [MemoryEffects<[MemAlloc]>]> {
  let summary = "allocates a ring";
  let description = [{
    With `async` its stages are filled by copies that run by themselves (`tile.fill_stage`) and drained by
    so many releases each; barriers in on-chip memory behind the stages tell when. Its uses are numbered:
    acquire, fill, commit, wait and release name the use, and use i is in stage i modulo the stages. All
    threads of the work item must pass a `tile.barrier` before the first.

    `turns`: so many groups of warps wait for its uses in turn, and no group for all uses of a stage.
    Barriers tell a phase from the one before alone, so these wait for the end of the use before as well.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$async, OptionalAttr<I64Attr>:$turns,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Tile_RingType:$ring);
  let assemblyFormat = "(`async` $async^)? (`turns` $turns^)? attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

class Tile_RingStageOp<string mnemonic> : Tile_Op<mnemonic> {
  let arguments = (ins Arg<Tile_RingType, "", [MemRead, MemWrite]>:$ring, Optional<Index>:$use);
  let results = (outs Tile_ViewType:$stage);
  let assemblyFormat = "$ring (`[` $use^ `]`)? attr-dict `:` type($ring) `->` type($stage)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$stage, "::mlir::Value":$ring),
                            [{ build($_builder, $_state, stage, ring, ::mlir::Value()); }]>];
}
class Tile_RingSignalOp<string mnemonic> : Tile_Op<mnemonic> {
  let arguments = (ins Arg<Tile_RingType, "", [MemRead, MemWrite]>:$ring, Optional<Index>:$use);
  let assemblyFormat = "$ring (`[` $use^ `]`)? attr-dict `:` type($ring)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$ring),
                            [{ build($_builder, $_state, ring, ::mlir::Value()); }]>];
}
def Tile_AcquireOp : Tile_RingStageOp<"acquire"> { let summary = "producer: the next free stage"; }
def Tile_CommitOp : Tile_RingSignalOp<"commit"> { let summary = "producer: the stage is filled"; }
def Tile_WaitOp : Tile_RingStageOp<"wait"> { let summary = "consumer: the next filled stage"; }
def Tile_ReleaseOp : Tile_RingSignalOp<"release"> { let summary = "consumer: the stage may be reused"; }

def Tile_PipelineOp : Tile_Op<"pipeline", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "a loop whose iterations pass through roles";
  let description = [{
    Every role runs for every value of the induction variable, in order; a producer may run ahead of its
    consumer by the ring's stages. Where roles are stages of one thread, iteration i runs all roles
    before iteration i+1.

    Constraint T-P1: each ring is filled (acquire, commit) by one role and drained (wait, release) by
    one later role. T-P2: each of the four stands once per role, in that order, not inside a loop.
  }];
  let arguments = (ins Index:$lower, Index:$upper, Index:$step);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$lower, "::mlir::Value":$upper,
                                 "::mlir::Value":$step)>];
  let skipDefaultBuilders = 1;
}

def Tile_RoleOp : Tile_Op<"role", [SingleBlock, NoTerminator,
                                   ParentOneOf<["PipelineOp", "RolesOp"]>, RecursiveMemoryEffects]> {
  let summary = "what one group of threads does in a pipeline";
  let description = [{
    `warps` and `registers` (per thread) are budgets for targets that have them. In `tile.roles` the atom
    that `tile-select-atoms` chooses takes or gives up registers when the role begins.
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$warps, OptionalAttr<I64Attr>:$registers,
                       OptionalAttr<StrAttr>:$atom);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name (`warps` `=` $warps^)? (`registers` `=` $registers^)? attr-dict-with-keyword $body
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let extraClassDeclaration = [{
    /// Of a role of `tile.roles`: its first warp.
    int64_t firstWarp();
  }];
}

//===- Register tiles -------------------------------------------------------------------------===//

def Tile_FillOp : Tile_Op<"fill", [Pure]> {
  let summary = "a tile of one value";
  let arguments = (ins Tile_Scalar:$value);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
}

def Tile_IotaOp : Tile_Op<"iota", [Pure]> {
  let summary = "0, 1, 2, … along the columns";
  let description = [{
    One row of i32: what a scalar region compares to know its column. In layout `mma_rows` numbers of rows.
  }];
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Terminator, Pure, ReturnLike, HasParent<"MapOp">]> {
  let summary = "the value of a scalar region";
  let arguments = (ins Tile_Scalar:$value);
  let assemblyFormat = "attr-dict $value `:` type($value)";
}

def Tile_MapOp : Tile_Op<"map", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a scalar region over the elements of tiles";
  let description = [{
    Prologues and epilogues are inlined here. The region sees one element of each operand; an operand
    with one row or one column is broadcast. Values from outside may be used as scalars.
  }];
  let arguments = (ins Variadic<Tile_TileType>:$inputs);
  let results = (outs Tile_TileType:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`(` $inputs^ `:` type($inputs) `)`)? `->` type($result) $body attr-dict
  }];
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure]> {
  let summary = "sum or maximum along the columns";
  let description = [{
    The order is fixed by the shapes alone: first the vectors of a row in order, lane by lane, then the
    lanes as a binary tree (lane i with lane i + n/2). The result is a column with one element per row,
    or the same numbers as a row, ready to be lanes of further arithmetic.

    An accumulator (`mma_acc`) gives the largest of its rows (`mma_rows`) with `max`, which passes a NaN
    over, or of its columns (`mma_columns`) with `max_or_nan`, which keeps it.
  }];
  let arguments = (ins Tile_ReduceKindAttr:$kind, Tile_TileType:$input);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$kind $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "the sum of all columns before each one";
  let description = [{ Of one row of i32; the first column becomes 0. }];
  let arguments = (ins Tile_TileType:$input);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_ExtractOp : Tile_Op<"extract", [Pure]> {
  let summary = "one element of a tile, at constant coordinates";
  let arguments = (ins Tile_TileType:$input, I64Attr:$row, I64Attr:$col);
  let results = (outs Tile_Scalar:$result);
  let assemblyFormat = "$input `[` $row `,` $col `]` attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "the same elements, row-major, as another tile";
  let arguments = (ins Tile_TileType:$input);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_TransposeOp : Tile_Op<"transpose", [Pure]> {
  let summary = "rows become columns";
  let arguments = (ins Tile_TileType:$input);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_StackOp : Tile_Op<"stack", [Pure]> {
  let summary = "tiles of equal columns, one below the other";
  let arguments = (ins Variadic<Tile_TileType>:$inputs);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SliceOp : Tile_Op<"slice", [Pure]> {
  let summary = "a box of a tile, at constant coordinates";
  let arguments = (ins Tile_TileType:$input, I64Attr:$row, I64Attr:$col);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$input `[` $row `,` $col `]` attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

//===- Arithmetic that a target has atoms for -------------------------------------------------===//

def Tile_MmaOp : Tile_Op<"mma", [Pure]> {
  let summary = "accumulates a product of two tiles";
  let description = [{
    `acc[m,n] += Σ_k a[m,k] · b[k,n]`, k ascending, one rounding per step (fused multiply-add).
    `side` says which operand lies along the lanes. With `b` (the default) the tiles are a [M,K],
    b [K,N], acc [M,N]; with `a` all three are kept transposed: a [K,M], b [N,K], acc [N,M].
    `atom` is set by `tile-select-atoms`.

    In layouts `mma_a`, `mma_b` and `mma_acc` operands are BF16 or FP16 (or `a` is f32), products exact, the
    accumulator FP32 and the order of additions the matrix instruction's own.
  }];
  let arguments = (ins Tile_TileType:$a, Tile_TileType:$b, Tile_TileType:$acc,
                       DefaultValuedAttr<Tile_SideAttr, "::m3c::tile::Side::B">:$side,
                       OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_FmaOp : Tile_Op<"fma", [Pure]> {
  let summary = "element-wise fused multiply-add with broadcast of single rows and columns";
  let arguments = (ins Tile_TileType:$a, Tile_TileType:$b, Tile_TileType:$acc,
                       OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DequantWordsOp : Tile_Op<"dequant_words", [Pure]> {
  let summary = "one k of a tile of packed words";
  let description = [{
    Each 32-bit word holds 32/bits consecutive k of one output; `part` picks one. Without a scale the
    plain value of the format; with it the product, exact in FP32 (E2M1 × E4M3 has at most 6
    significant bits, E4M3 × power of two at most 4).
  }];
  let arguments = (ins Tile_TileType:$words, Index:$part, Optional<Tile_TileType>:$scale,
                       Tile_FormatAttr:$format, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $words `[` $part `]` (`scale` $scale^ `:` type($scale))? `format` $format attr-dict
    `:` type($words) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DequantFragmentOp : Tile_Op<"dequant_fragment", [Pure]> {
  let summary = "packed words of 16 outputs × 64 k to the left operand of a matrix instruction";
  let description = [{
    `words` holds in each lane the codes of its fragment (recipe FragmentWords of plan.fbs), `scale` the
    two scale bytes of its two rows (FragmentScales): E4M3 for e2m1, E8M0 for e4m3. The result is code
    times scale in BF16, exact (at most 6 significant bits); for e2m1 it is 2^-9 of that, which leaves room
    for every scale. A tile of f32 is kept as three of BF16 that
    add up to it exactly (8 significant bits each); a product takes them one after the other.
  }];
  let arguments = (ins Tile_TileType:$words, Optional<Tile_TileType>:$scale, Tile_FormatAttr:$format,
                       OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $words (`scale` $scale^ `:` type($scale))? `format` $format attr-dict
    `:` type($words) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DecodeOp : Tile_Op<"decode", [Pure]> {
  let summary = "consecutive stored codes to FP32";
  let description = [{
    BF16 from i16; E4M3, E8M0 and UE4M3 (E4M3 of values that are neither negative nor NaN: block
    scales) from i8; elementwise.
  }];
  let arguments = (ins Tile_TileType:$codes, Tile_FormatAttr:$format, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$codes `format` $format attr-dict `:` type($codes) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DequantGroupOp : Tile_Op<"dequant_group", [Pure]> {
  let summary = "one NVFP4 cache group: 16 packed codes and their scale byte to FP32";
  let description = [{
    With `e4m3_grid` the product code × scale is rounded again to E4M3 (nearest even, saturating), the
    grid that the model was trained on (docs/numerics.md); without it the product is exact.
    `codes` are 8 bytes, even dimension in the low nibble. The result comes in pairs, dimensions 0 8 1
    9 … 7 15, the transpose of the group seen as 2x8: lanes then need no move across a vector. Products
    take their other operand in the same order (`tile.transpose`).
  }];
  let arguments = (ins Tile_TileType:$codes, I8:$scale, UnitAttr:$e4m3_grid,
                       OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $codes `,` $scale (`e4m3_grid` $e4m3_grid^)? attr-dict `:` type($codes) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_EncodeOp : Tile_Op<"encode", [Pure]> {
  let summary = "FP32 to stored codes, elementwise, nearest even, E4M3 saturating";
  let arguments = (ins Tile_TileType:$input, Tile_FormatAttr:$format, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$input `format` $format attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_QuantGroupOp : Tile_Op<"quant_group", [Pure]> {
  let summary = "16 FP32 values to one NVFP4 cache group (docs/numerics.md)";
  let arguments = (ins Tile_TileType:$input, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$codes, I8:$scale);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($codes)";
  let hasVerifier = 1;
}

def Tile_QuantGroupsOp : Tile_Op<"quant_groups", [Pure]> {
  let summary = "a row of FP32 values to NVFP4 cache groups, all at once";
  let description = [{ Each 16 values as by `tile.quant_group`; `scales` has one of each. }];
  let arguments = (ins Tile_TileType:$input, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$codes, Tile_TileType:$scales);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($codes) `,` type($scales)";
  let hasVerifier = 1;
}

def Tile_RoundOp : Tile_Op<"round", [Pure]> {
  let summary = "rounds an FP32 scalar to a narrower format and back";
  let description = [{ For scalar regions: BF16 nearest even, E4M3 nearest even saturating. }];
  let arguments = (ins F32:$input, Tile_FormatAttr:$format);
  let results = (outs F32:$result);
  let assemblyFormat = "$input `to` $format attr-dict";
}

include "dialects/tile/TileMatrixOps.td"
include "dialects/tile/TileSharedOps.td"
include "dialects/tile/TileTensorOps.td"

#endif
