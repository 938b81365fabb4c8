// Ops of kernels that multiply cached codes group by group: a group's scale comes onto its sum.
#ifndef M3C_TILE_GROUP_OPS_TD
#define M3C_TILE_GROUP_OPS_TD

def Tile_LoadGroupsOp : Tile_Op<"load_groups"> {
  let summary = "rows of queries as the right operand of tile.mma_groups";
  let description = [{
    Column n of the result is row index + n of the view [rows, dims], of f32 or of BF16 codes (i16), rounded
    to FP16; rows from `limit` on repeat the last. Of each sixteen dims lane q of four has 4q … 4q + 3.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$view, Variadic<Index>:$indices, Index:$limit);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` `limit` $limit attr-dict `:` type($view) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_MmaGroupsOp : Tile_Op<"mma_groups"> {
  let summary = "sixteen keys of an NVFP4 slot times queries, scales after the products";
  let description = [{
    Row m of the result is the sum over the groups of sixteen dims, ascending, of the scale times the product
    of the codes of token + m with the queries: each product is that of a matrix instruction on codes that
    no scale has touched, each sum one fused multiply-add in FP32. `codes` is the slot [tokens, dims/2],
    `scales` [tokens · dims/16], both in shared memory; `queries` come from `tile.load_groups`.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$codes, Arg<Tile_ViewType, "", [MemRead]>:$scales,
                       Index:$token, Tile_TileType:$queries, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $codes `[` $token `]` `scales` $scales `with` $queries attr-dict
    `:` type($codes) `,` type($scales) `,` type($queries) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif
