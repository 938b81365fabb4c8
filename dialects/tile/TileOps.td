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

    `part` is for rows of f32 on no grid, which two operands of f16 hold: part 0 has the first eleven bits of each
    element, part 1 what is left, rounded. Their sum is within 2^-22 of the element, or 2^-24 where that is more.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$view, Variadic<Index>:$indices,
                       Optional<Index>:$limit, DenseI64ArrayAttr:$sizes, OptionalAttr<I64Attr>:$part);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` `sizes` $sizes (`limit` $limit^)? (`part` $part^)? attr-dict `:` type($view) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$view,
                                 "::mlir::ValueRange":$indices, "::llvm::ArrayRef<int64_t>":$sizes),
                            [{ build($_builder, $_state, result, view, indices, ::mlir::Value(), sizes, ::mlir::IntegerAttr()); }]>,
                  OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$view, "::mlir::ValueRange":$indices,
                                 "::mlir::Value":$limit, "::llvm::ArrayRef<int64_t>":$sizes),
                            [{ build($_builder, $_state, result, view, indices, limit, sizes, ::mlir::IntegerAttr()); }]>];
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
    row n / across of that view in the shared memory of work item n modulo across. In `pairs`, row n is
    the sum of columns 2n and 2n + 1.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices, OptionalAttr<I64Attr>:$across, UnitAttr:$pairs);
  let assemblyFormat = [{
    (`pairs` $pairs^)? $value `,` $view `[` $indices `]` (`across` $across^)? attr-dict `:` type($value) `,` type($view)
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

include "dialects/tile/ops/TileLaunchOps.td"

include "dialects/tile/ops/TilePipelineOps.td"
include "dialects/tile/ops/TileArithmeticOps.td"
include "dialects/tile/ops/TileMatrixOps.td"
include "dialects/tile/ops/TileSharedOps.td"
include "dialects/tile/ops/TileTensorOps.td"

#endif
