// Ops of products whose right operand, rows of the batch, stands in shared memory.
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
    a multiple of four, come to it together, each with 16 rows of the left operand in registers (`mma_a`,
    16 × 64 BF16) and its own accumulator; `right` [N, 64] in shared memory is a stage as `tile.pack_rows`
    makes it, the same for the four. Products are exact, sums FP32 in the instruction's order.

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

#endif
