// Ops of kernels that multiply cached pages by matrix instructions: stages that copies fill, roles
// beside each other, operands and accumulators.
#ifndef M3C_TILE_MATRIX_OPS_TD
#define M3C_TILE_MATRIX_OPS_TD

def Tile_GatherOp : Tile_Op<"gather"> {
  let summary = "elements of an array at the numbers in a tile";
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$view, Variadic<Index>:$indices,
                       Tile_TileType:$numbers);
  let results = (outs Tile_TileType:$result);
  let description = [{ `result[i] = view[index + numbers[i]]`; the view has one dimension. }];
  let assemblyFormat = [{
    $view `[` $indices `]` `at` $numbers attr-dict `:` type($view) `,` type($numbers) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_CompactOp : Tile_Op<"compact"> {
  let summary = "the elements that are taken, one behind the other";
  let description = [{
    Stores the elements for which `takes` holds, row by row, from `view[index]` on, at most `limit` of them.
    A tile has rows of 32 columns.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices, Tile_TileType:$takes, Index:$limit);
  let assemblyFormat = [{
    $value `,` $view `[` $indices `]` `where` $takes `limit` $limit attr-dict
    `:` type($value) `,` type($view) `,` type($takes)
  }];
  let hasVerifier = 1;
}

def Tile_CountOp : Tile_Op<"count", [Pure]> {
  let summary = "how many conditions hold";
  let arguments = (ins Tile_TileType:$takes);
  let results = (outs Index:$result);
  let assemblyFormat = "$takes attr-dict `:` type($takes)";
  let hasVerifier = 1;
}

def Tile_StoreColumnsOp : Tile_Op<"store_columns"> {
  let summary = "one element of each column, far apart in memory";
  let description = [{
    `view[index + n · stride]` is column n of a tile in layout `mma_columns`, for n below `limit`.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices, Index:$stride, Index:$limit);
  let assemblyFormat = [{
    $value `,` $view `[` $indices `]` `stride` $stride `limit` $limit attr-dict
    `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_StoreSpreadOp : Tile_Op<"store_spread"> {
  let summary = "rows of an accumulator whose columns are values, to BF16 or FP32";
  let description = [{
    Column Cn + c of the accumulator, of groups of C, becomes element `spread` · c + n of a row: the order
    in which `tile.load_cached` gives values. Rows below `limit` are written.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices, I64Attr:$spread, Index:$limit);
  let assemblyFormat = [{
    $value `,` $view `[` $indices `]` `spread` $spread `limit` $limit attr-dict
    `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_FillStageOp : Tile_Op<"fill_stage"> {
  let summary = "starts the copy of a whole stage from global memory";
  let description = [{
    For a ring with `async`, between acquire and commit of the same use: as many bytes as a stage has,
    from a byte address that is a multiple of 16. Consumers that wait for the use see them.
  }];
  let arguments = (ins Arg<Tile_RingType, "", [MemRead, MemWrite]>:$ring, Index:$use,
                       Arg<Tile_ViewType, "", [MemRead]>:$view, Variadic<Index>:$indices,
                       OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = [{
    $ring `[` $use `]` `from` $view `[` $indices `]` attr-dict `:` type($ring) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_RingMemoryOp : Tile_Op<"ring_memory", [Pure]> {
  let summary = "the memory of a ring that is not used any more";
  let description = [{
    The caller sees to it that every use was waited for and released, and that a barrier stands between.
  }];
  let arguments = (ins Tile_RingType:$ring);
  let results = (outs Tile_ViewType:$view);
  let assemblyFormat = "$ring attr-dict `:` type($ring) `->` type($view)";
  let hasVerifier = 1;
}

def Tile_RolesOp : Tile_Op<"roles", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "groups of warps, each of which does one thing";
  let description = [{
    Each `tile.role` says how many `warps` it has, in order from warp 0 on; together they are the warps of
    the kernel. Every role runs once, beside the others, with loops of its own. With `registers` its
    threads have so many from its beginning to the end of the kernel: a role that takes more than a thread
    begins with waits until others have given up as many. What a chip asks of the warps and of the sum is
    checked by `tile-check-limits`.

    Constraint T-S1: the warps add up. T-S2: registers, where given, are multiples of 8 from 24 to 256 and
    stand on every role; the kernel has `residents`, which say how many a thread begins with. T-S3: a ring is
    filled by one role and drained by one other. T-S4: registers are given once: in no loop,
    and by one `tile.roles` of a kernel.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$body attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether its roles say how many registers their threads have.
    bool hasBudgets();
  }];
}

def Tile_AnyOp : Tile_Op<"any", [Pure]> {
  let summary = "whether a condition holds for any row";
  let arguments = (ins Tile_TileType:$input);
  let results = (outs I1:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Tile_ToOperandOp : Tile_Op<"to_operand", [Pure]> {
  let summary = "an operand in another element, or an accumulator as the next left operand";
  let description = [{
    BF16 operands to FP16 (what lies below 2^-14 keeps a step of 2^-24, what lies above 65,504 becomes
    infinite) or E4M3 (nearest, saturated). Of an accumulator of K = 16, 32 or 128 columns each lane keeps its
    elements, rounded to FP16: the k of the result that are in lane t of a row are that lane's columns.
  }];
  let arguments = (ins Tile_TileType:$input);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_CodeTableOp : Tile_Op<"code_table"> {
  let summary = "products of the E2M1 magnitudes with every scale, as E4M3 codes";
  let description = [{
    Row s of the view [256, 8] has the codes of the eight magnitudes times scale byte s, rounded to nearest
    even and saturated; where s is NaN, NaN. All warps of the role, or of the work item, fill it together.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemWrite]>:$view);
  let assemblyFormat = "$view attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_LoadCachedOp : Tile_Op<"load_cached", [AttrSizedOperandSegments]> {
  let summary = "tokens of a cache slot in shared memory to an operand";
  let description = [{
    `codes` is the slot [tokens, bytes of a token]; e2m1 has `scales` and a `table` (tile.code_table) and
    gives values on the E4M3 grid, e4m3 has neither. Without a table `product` says how codes and scales are
    multiplied: `multiply` or `detour`, onto the same grid by an instruction of the chip's or by way of
    FP16, or `exact`, for keys alone, as they are. The result says what is read, keys in FP16 or E4M3,
    values in FP16; K is 16 or 32, T = K/4, C the columns of a group of the accumulator, 8 or 16:
    * `mma_a` 16 × dims: keys as rows;
    * `mma_b` dims × K: keys as columns; column Ce + Cq/4 + b, q below 4, b below C/4, is token
      Tq + ((Ce/4 + b) ^ turned(q));
    * `mma_b` K × dims: values; k = Tq + s is token Tq + (s ^ turned(q)), column Cn + c is dim
      dims/C · c + n. Scales of values lie in quads of tokens (docs/plan-format.md). Tokens from `limit`
      on are zero, whatever their bytes are.
    `turned(q)` is what the chip row says, q%2 with K = 16. A product of queries with keys, seen as
    `tile.to_operand` sees it, has the k of values.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$codes,
                       Arg<Optional<Tile_ViewType>, "", [MemRead]>:$scales,
                       Arg<Optional<Tile_ViewType>, "", [MemRead]>:$table, Index:$token,
                       Optional<Index>:$limit, Tile_FormatAttr:$format,
                       OptionalAttr<StrAttr>:$product, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $codes `[` $token `]` (`scales` $scales^ `:` type($scales))? (`table` $table^ `:` type($table))?
    (`product` $product^)? (`limit` $limit^)? `format` $format attr-dict `:` type($codes) `->` type($result)
  }];
  let hasVerifier = 1;
}

include "dialects/tile/ops/TileGroupOps.td"

#endif
