// Ops of products whose right operand, rows of the batch or a slot of a cache page, stands in shared
// memory.
#ifndef M3C_TILE_SHARED_OPS_TD
#define M3C_TILE_SHARED_OPS_TD

def Tile_PackRowsOp : Tile_Op<"pack_rows", [AttrSizedOperandSegments]> {
  let summary = "64 k of some rows as a stage of tile.mma_shared";
  let description = [{
    `count` rows of `x` (BF16, i16 elements) from `row` on, of each the 64 elements from `column` on, go to
    the rows from `first` on of stage `stage` of the view [stages, N, 64]; rows from `limit` on are zero.
    `first` and `count` are multiples of 8. A row of a stage is 128 bytes. Of its 64 k each lane t of four has
    the 16 from 16t on (`mma_a`); the pair of elements 16t + 2c of the row becomes word t of run c of 16 bytes, and
    run c stands at run c ^ row mod 8: what matrix instructions call a 128-byte swizzle. With a list, row r
    is that of number `list[place + r] / per` in `x`.

    ```mlir
    tile.pack_rows %x[%row, %k] limit %end, %stages[%stage, %first] count 16
        : !tile.view<?x256xi16>, !tile.view<?x128x64xi16>
    tile.pack_rows %x[%row, %k] by %list[%place] per 4 limit %end, %stages[%stage, %first] count 16
        : !tile.view<?x256xi16>, !tile.view<?x128x64xi16>, !tile.view<?xi32>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$x, Index:$row, Index:$column,
                       Arg<Optional<Tile_ViewType>, "", [MemRead]>:$list, Optional<Index>:$place,
                       Index:$limit, Arg<Tile_ViewType, "", [MemWrite]>:$stages, Index:$stage,
                       Index:$first, OptionalAttr<I64Attr>:$per, I64Attr:$count,
                       OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = [{
    $x `[` $row `,` $column `]` (`by` $list^ `[` $place `]` `per` $per)? `limit` $limit `,`
    $stages `[` $stage `,` $first `]` `count` $count attr-dict
    `:` type($x) `,` type($stages) (`,` type($list)^)?
  }];
  let hasVerifier = 1;
}

def Tile_MmaSharedOp : Tile_Op<"mma_shared", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "starts a product of four warps with rows in shared memory";
  let description = [{
    `acc[m,n] += Σ_k a[m,k] · right[n,k]`, as defined in FP64: four warps that follow each other, the first
    a multiple of four, come to it together, each with 16 rows of the left operand in registers (`mma_a`)
    and its own accumulator; `right` in shared memory is the same for the four. Either `a` is 16 × 64 BF16 and
    `right` [N, 64] a stage as `tile.pack_rows` makes it, or `a` is 16 × 128 and `right` [2, N, 64] an operand
    of `tile.share_slot`: keys (N = 128, BF16) or values (N = 136, FP16). Products are exact, sums FP32 in
    the instruction's order.

    The product goes on by itself. Until a `tile.mma_wait` the sums are nobody's, the left operand must keep
    its registers, and the stage must not be released.

    Constraint T-G3: of products under way only `tile.mma_shared`, `tile.mma_wait` and loops that carry them
    take the sums.

    ```mlir
    %s = tile.mma_shared %a, %stage, %acc
        : !tile.tile<16x64xbf16, mma_a>, !tile.view<128x64xi16, shared>, !tile.tile<16x128xf32, mma_acc>
    %sum = tile.mma_wait %s : !tile.tile<16x128xf32, mma_acc>
    ```
  }];
  let arguments = (ins Tile_TileType:$a, Arg<Tile_ViewType, "", [MemRead]>:$right, Tile_TileType:$acc,
                       OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$a `,` $right `,` $acc attr-dict `:` type($a) `,` type($right) `,` type($acc)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static bool isPossible(int64_t columns) { return columns == 64 || columns == 128 || columns == 256; }
    /// Whether the right operand is a slot of a cache page.
    bool isOfSlot() { return getRight().getType().getShape().size() == 3; }
  }];
}

def Tile_MmaWaitOp : Tile_Op<"mma_wait", [AllTypesMatch<["sums", "result"]>,
                                          MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the sums of products that this warp has started";
  let description = [{
    All products that it has started have ended, but for the last `leaves` of them; operands of those that have
    ended may be written again. Where it leaves any, the sums are still under way.

    Constraint T-G4: it leaves at most one.
  }];
  let arguments = (ins Tile_TileType:$sums, DefaultValuedAttr<I64Attr, "0">:$leaves,
                       OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$sums (`leaves` $leaves^)? attr-dict `:` type($sums)";
  let hasVerifier = 1;
}

//===- Slots of cache pages -------------------------------------------------------------------===//

def Tile_ShareSlotOp : Tile_Op<"share_slot", [AttrSizedOperandSegments]> {
  let summary = "a slot of a cache page as the right operand of tile.mma_shared";
  let description = [{
    `codes` [128, bytes of a token] and, of e2m1, their `scales` as in `tile.load_cached`, in global memory; `table`
    is that of `tile.code_table`. All warps of the work item do it together; products may begin after a barrier.

    * Keys, without `limit`: `operand` [2, 128, 64] holds BF16, a row for each token. A row is two times 128
      bytes; word t of run c of part s is the pair of dims 32t + 16s + 2c, as a left operand of 128 dims
      (`mma_a`) has them.
    * Values: `operand` [2, 136, 64] holds FP16, tokens along its rows: row 8n + c is dim 16c + n, the order that
      `tile.store_spread` takes; the last eight rows are ones, so that their columns of a product are the sums
      of its left operand. Tokens from `limit` on are zero, whatever their bytes are.

    Run c of 16 bytes of row r stands at run c ^ r mod 8, as `tile.pack_rows` has it.

    ```mlir
    tile.share_slot %codes scales %scales : !tile.view<1024xi8> table %table : !tile.view<256x8xi8, shared>
        format e2m1, %operand : !tile.view<128x64xi8>, !tile.view<2x128x64xi16, shared>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$codes,
                       Arg<Optional<Tile_ViewType>, "", [MemRead]>:$scales,
                       Arg<Optional<Tile_ViewType>, "", [MemRead]>:$table, Optional<Index>:$limit,
                       Tile_FormatAttr:$format, Arg<Tile_ViewType, "", [MemWrite]>:$operand,
                       OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = [{
    $codes (`scales` $scales^ `:` type($scales))? (`table` $table^ `:` type($table))? (`limit` $limit^)?
    `format` $format `,` $operand attr-dict `:` type($codes) `,` type($operand)
  }];
  let hasVerifier = 1;
}

def Tile_FromOperandOp : Tile_Op<"from_operand", [Pure]> {
  let summary = "an FP16 left operand that was an accumulator, as one again";
  let description = [{ The inverse of `tile.to_operand` of an accumulator, of what it has rounded. }];
  let arguments = (ins Tile_TileType:$input);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif
