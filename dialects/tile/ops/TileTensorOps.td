// Ops of kernels that multiply in tensor memory: its columns, gates between roles, operands, products
// that end by themselves, rows that lanes hold.
#ifndef M3C_TILE_TENSOR_OPS_TD
#define M3C_TILE_TENSOR_OPS_TD

//===- Tensor memory --------------------------------------------------------------------------===//

def Tile_TensorMemoryOp : Tile_Op<"tensor_memory", [MemoryEffects<[MemAlloc]>]> {
  let summary = "columns of tensor memory for this work item";
  let description = [{
    128 lanes of 32-bit columns: a power of two from 32 on. All threads of the work item take part and meet;
    `tile.tensor_free` gives the columns back. `offset` (of the word in shared memory that the address comes
    in) is set by `tile-assign-shared`. Warp w of the work item reaches lanes 32 (w mod 4) to 32 (w mod 4) + 31.
    With `pair` the two work items of a cluster get the same columns and meet; products of the two
    (`tile.tensor_mma`) read and write both of their tensor memories.

    Constraint T-N1: the columns are such a power of two. T-N2: one tensor_free in the same block gives them
    back, and nothing uses them after it. T-N19: a pair is a cluster of two. T-N20: all tensor memory, products and
    gates that products signal of a kernel are of pairs, or none is.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset, UnitAttr:$pair);
  let results = (outs Tile_ViewType:$memory);
  let assemblyFormat = "(`pair` $pair^)? attr-dict `:` type($memory)";
  let hasVerifier = 1;
}

def Tile_TensorFreeOp : Tile_Op<"tensor_free", [MemoryEffects<[MemFree]>]> {
  let summary = "gives tensor memory back";
  let description = [{
    All threads of the work item take part and meet; every product must have been waited for.
  }];
  let arguments = (ins Tile_ViewType:$memory);
  let assemblyFormat = "$memory attr-dict `:` type($memory)";
  let hasVerifier = 1;
}

def Tile_TensorPartOp : Tile_Op<"tensor_part", [Pure]> {
  let summary = "columns of tensor memory from one on, as another view";
  let arguments = (ins Tile_ViewType:$memory, Index:$column);
  let results = (outs Tile_ViewType:$part);
  let assemblyFormat = "$memory `[` $column `]` attr-dict `:` type($memory) `->` type($part)";
  let hasVerifier = 1;
}

def Tile_TensorLoadOp : Tile_Op<"tensor_load"> {
  let summary = "the warp's lanes of tensor memory to registers";
  let description = [{ A tile in layout `lane_rows`: lane l gets lane l of the warp's 32. Waits for it. }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$part, OptionalAttr<StrAttr>:$atom);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$part attr-dict `:` type($part) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_TensorStoreOp : Tile_Op<"tensor_store"> {
  let summary = "registers to the warp's lanes of tensor memory";
  let description = [{ The inverse of `tile.tensor_load`; waits until it is there. }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$part,
                       OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = "$value `,` $part attr-dict `:` type($value) `,` type($part)";
  let hasVerifier = 1;
}

//===- Gates ----------------------------------------------------------------------------------===//

def Tile_GatesOp : Tile_Op<"gates", [MemoryEffects<[MemAlloc]>]> {
  let summary = "barriers of stages that one role fills and another one drains";
  let description = [{
    As of a ring, without its memory: use i is in stage i modulo the stages. A stage is full when `fills`
    signals have come, empty again after `drains` of them; before its first use it is empty. A signal
    comes from a warp (`tile.gate_signal`) or from products that have ended (`tile.gate_commit`). All threads
    of the work item must pass a barrier before the first use.

    With `pair` they are of the two work items of a cluster: warps of both signal to the first, which alone may
    wait for them, products to both. All threads of the cluster must meet before the first use and after the last.

    Constraint T-N3: what is signalled by products counts one; what is signalled by warps, the warps of
    the role or the one that does it alone, twice as many with `pair`. T-N4: each side of a gate is signalled by one role and awaited.
  }];
  let arguments = (ins I64Attr:$fills, I64Attr:$drains, OptionalAttr<I64Attr>:$offset, UnitAttr:$pair);
  let results = (outs Tile_GatesType:$gates);
  let assemblyFormat = "`fills` $fills `drains` $drains (`pair` $pair^)? attr-dict `:` type($gates)";
  let hasVerifier = 1;
}

class Tile_GateOp<string mnemonic> : Tile_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins Tile_GatesType:$gates, Tile_GateAttr:$side, Index:$use);
  let assemblyFormat = "$side $gates `[` $use `]` attr-dict `:` type($gates)";
}
def Tile_GateWaitOp : Tile_GateOp<"gate_wait"> {
  let summary = "the stage of a use is full, or empty for it";
  let description = [{ What was done before the signals, products included, is seen after it. }];
}
def Tile_GateSignalOp : Tile_GateOp<"gate_signal"> {
  let summary = "a warp has filled or drained the stage of a use";
  let description = [{
    What the warp did in tensor and shared memory before it is seen by who waits. All warps of the role do it, with
    `alone` one of them.
  }];
  let arguments = (ins Tile_GatesType:$gates, Tile_GateAttr:$side, Index:$use, UnitAttr:$alone);
  let assemblyFormat = "$side $gates `[` $use `]` (`alone` $alone^)? attr-dict `:` type($gates)";
}
def Tile_GateCommitOp : Tile_GateOp<"gate_commit"> {
  let summary = "signals when the products that this warp has started have ended";
}

//===- Operands and products ------------------------------------------------------------------===//

def Tile_OperandQueriesOp : Tile_Op<"operand_queries"> {
  let summary = "rows to the right operand of a product with keys, E4M3";
  let description = [{
    Rows of f32 or BF16 (i16) from `row` on, nearest even, saturating; those from `limit` on are zero. `operand`
    is [columns, dims] of bytes in shared memory, of 128 dims: a row lies in 128 bytes, its runs of 16 bytes at
    run ^ row mod 8. The warp that does it may multiply with it at once, others after a barrier.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$rows, Index:$row, Index:$limit,
                       Arg<Tile_ViewType, "", [MemWrite]>:$operand);
  let assemblyFormat = [{
    $rows `[` $row `]` `limit` $limit `,` $operand attr-dict `:` type($rows) `,` type($operand)
  }];
  let hasVerifier = 1;
}

def Tile_TensorKeysOp : Tile_Op<"tensor_keys"> {
  let summary = "keys of a cache slot to the left operand of a product, E4M3 in tensor memory";
  let description = [{
    The slot is in shared memory: `codes` [128, bytes] of e2m1 and their `scales`, token by token. Four warps
    together; each does the tokens that are its lanes. Values are code times scale, nearest even, saturating:
    `multiply` by an instruction for both, `detour` by way of FP16, which holds the products exactly.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$codes, Arg<Tile_ViewType, "", [MemRead]>:$scales,
                       StrAttr:$product, Arg<Tile_ViewType, "", [MemWrite]>:$part,
                       OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = [{
    $codes `scales` $scales `product` $product `,` $part attr-dict `:` type($codes) `,` type($scales) `,` type($part)
  }];
  let hasVerifier = 1;
}

def Tile_OperandValuesOp : Tile_Op<"operand_values"> {
  let summary = "values of a cache slot to the left operand of a product, FP16 in shared memory";
  let description = [{
    As `tile.tensor_keys`; scales lie in quads of tokens, tokens from `limit` on are zero. `operand` is
    [2, 128, 64] of i16: of each half of the dims a row of 128 bytes for each token, its runs of 16 bytes at
    run ^ token mod 8. Rows of the product are dims, so the operand is read with its rows next to each other.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$codes, Arg<Tile_ViewType, "", [MemRead]>:$scales,
                       StrAttr:$product, Index:$limit,
                       Arg<Tile_ViewType, "", [MemWrite]>:$operand, OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = [{
    $codes `scales` $scales `product` $product `limit` $limit `,` $operand attr-dict
    `:` type($codes) `,` type($scales) `,` type($operand)
  }];
  let hasVerifier = 1;
}

def Tile_OperandWeightsOp : Tile_Op<"operand_weights", [AllTypesMatch<["weights", "rounded"]>]> {
  let summary = "weights of the warp's tokens to the right operand of a product with values, FP16";
  let description = [{
    `operand` is [128, 16] of i16 in shared memory: a row of 32 bytes for each token, its two runs of 16 bytes
    at run ^ (token / 4) mod 2. The result is what the product multiplies: the weights rounded to FP16.
  }];
  let arguments = (ins Tile_TileType:$weights, Arg<Tile_ViewType, "", [MemWrite]>:$operand);
  let results = (outs Tile_TileType:$rounded);
  let assemblyFormat = "$weights `,` $operand attr-dict `:` type($weights) `,` type($operand)";
  let hasVerifier = 1;
}

def Tile_TensorMmaOp : Tile_Op<"tensor_mma"> {
  let summary = "starts a product whose sums are in tensor memory";
  let description = [{
    `sums[m,n] (+)= Σ_k left[m,k] · right[k,n]`, m < 128: onto what is there if `accumulate` holds. One warp
    starts it and goes on; `tile.gate_commit` tells when it has ended. Either keys in tensor memory
    (view [128, dims/4] of i32, four E4M3 of a token in a word) times queries, or values times weights
    (`tile.operand_values`, `tile.operand_weights`). Products are exact, sums are FP32 in an order of the chip's own.

    With `pair`, m < 256: the first work item of the two starts the product of the keys of both. Each has its keys
    and their sums in its tensor memory, and in its shared memory half of the queries: the first the first half.
  }];
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$left, Arg<Tile_ViewType, "", [MemRead]>:$right,
                       Arg<Tile_ViewType, "", [MemRead, MemWrite]>:$sums, I1:$accumulate,
                       OptionalAttr<StrAttr>:$atom, UnitAttr:$pair);
  let assemblyFormat = [{
    (`pair` $pair^)? $left `,` $right `,` $sums `accumulate` $accumulate attr-dict
    `:` type($left) `,` type($right) `,` type($sums)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Elements of its operands: "e4m3" or "f16"; of a pair "e4m3.pair".
    ::llvm::StringRef getOperandFormat() {
      if (getPair())
        return "e4m3.pair";
      return getLeft().getType().getSpace() == Space::Tensor ? "e4m3" : "f16";
    }
  }];
}

//===- Rows that lanes hold -------------------------------------------------------------------===//

def Tile_LaneNumbersOp : Tile_Op<"lane_numbers", [Pure]> {
  let summary = "which lane of tensor memory a row is: 0 … 127";
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_ReduceLanesOp : Tile_Op<"reduce_lanes", [Pure]> {
  let summary = "sum or largest of each column over the lanes of the warp";
  let description = [{
    The result is one row whose columns lie along the lanes. `max` passes a NaN over, `max_or_nan` keeps it.
    Lanes are added as a binary tree, l with l + n/2.
  }];
  let arguments = (ins Tile_ReduceKindAttr:$kind, Tile_TileType:$input);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$kind $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_LoadRowOp : Tile_Op<"load_row"> {
  let summary = "contiguous elements that every lane gets";
  let arguments = (ins Arg<Tile_ViewType, "", [MemRead]>:$view, Variadic<Index>:$indices);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_StoreLanesOp : Tile_Op<"store_lanes"> {
  let summary = "rows that lanes hold, as columns of a view";
  let description = [{
    `view[index + n, column + l] = value[l, n]` for a tile of 32 rows; of one row, which all lanes have,
    `view[index, column + n] = value[n]`.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices);
  let assemblyFormat = "$value `,` $view `[` $indices `]` attr-dict `:` type($value) `,` type($view)";
  let hasVerifier = 1;
}

#endif
