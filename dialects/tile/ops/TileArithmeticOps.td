// Register tiles: made, reshaped, computed with, and what targets have instructions for. Part of
// TileOps.td.
#ifndef M3C_TILE_ARITHMETIC_OPS_TD
#define M3C_TILE_ARITHMETIC_OPS_TD

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
  let description = [{ Of an accumulator (`mma_acc`) columns from a multiple of eight on. }];
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

#endif
