#ifndef M3C_DIALECTS_M3_M3TYPES
#define M3C_DIALECTS_M3_M3TYPES

include "dialects/m3/M3Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

class M3_Type<string name, string typeMnemonic> : TypeDef<M3_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def M3_WeightType : M3_Type<"Weight", "weight"> {
  let summary = "a logical weight and how the checkpoint stores it";
  let description = [{
    `!m3.weight<NxK, enc>` is a matrix of N outputs and K inputs (`y = x Wᵀ`), `!m3.weight<N, enc>` a
    vector, `!m3.weight<ExNxK, enc>` one matrix per expert. Encodings: `f32`, `bf16`, `mxfp8` (E4M3
    values, one E8M0 scale per 32 along K), `nvfp4` (E2M1 values, one E4M3 scale per 16 along K, an
    FP32 multiplier per matrix), `nvfp4_packed` (the same, but the FP32 number is a divisor).

    M3-C01: the scale group of the encoding divides K, and a vector is stored as `f32` or `bf16`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, EnumParameter<M3_Encoding>:$encoding);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Values along K that share one scale; 1 where there are no scales.
    int64_t groupSize() const;
    /// 0 for a vector or a single matrix.
    int64_t experts() const { return getShape().size() == 3 ? getShape()[0] : 0; }
    /// Outputs of one matrix, or elements of a vector.
    int64_t rows() const { return getShape()[getShape().size() == 3 ? 1 : 0]; }
    /// Inputs of one matrix; 1 for a vector.
    int64_t cols() const { return getShape().size() == 1 ? 1 : getShape().back(); }
    /// Bytes that one matrix (or the vector) occupies in storage, scales included.
    int64_t storedBytes() const;
  }];
}

def M3_CacheType : M3_Type<"Cache", "cache"> {
  let summary = "handle of the paged cache of keys, values and index keys";
  let description = [{
    M3-C02: a page holds 128 tokens, which is also the block of the sparse attention.
    M3-C03: the `e4m3` grid belongs to `nvfp4` storage alone; `head_dim` and `index_dim` are
    multiples of the 16 values that share an NVFP4 scale.

    `index_dim` is 0 where no layer has an index key.
  }];
  let parameters = (ins
    EnumParameter<M3_CacheStorage>:$kv, EnumParameter<M3_CacheGrid>:$grid, "int64_t":$page,
    "int64_t":$layers, "int64_t":$kv_heads, "int64_t":$head_dim, "int64_t":$index_dim);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def M3_BatchType : M3_Type<"Batch", "batch"> {
  let summary = "the rows of a step: token ids, positions, sequences, page table, logit rows";
}

class M3_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<M3_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def M3_StorageAttr : M3_Attr<"Storage", "storage"> {
  let summary = "encoding of a tensor whose values lie on a quantisation grid";
  let parameters = (ins EnumParameter<M3_Grid>:$grid);
  let assemblyFormat = "`<` $grid `>`";
}

def M3_PartAttr : M3_Attr<"Part", "part"> {
  let summary = "one checkpoint tensor of a weight";
  let description = [{
    `#m3.part<values, "name", "F8_E4M3", [256, 128]>`: role, tensor name, safetensors type and stored
    shape. In a stack of experts the name holds `{e}` where the expert's number stands.
  }];
  let parameters = (ins EnumParameter<M3_PartRole>:$role, StringRefParameter<>:$name,
                        StringRefParameter<>:$dtype, OptionalArrayRefParameter<"int64_t">:$shape);
  let assemblyFormat = "`<` $role `,` $name `,` $dtype `,` `[` (`]`) : ($shape^ `]`)? `>`";
}
def M3_PartArrayAttr : TypedArrayAttrBase<M3_PartAttr, "checkpoint tensors">;

def M3_DemotionAttr : M3_Attr<"Demotion", "demotion"> {
  let summary = "a storage format that the target does not take, and what stands in for it";
  let parameters = (ins StringRefParameter<>:$from, StringRefParameter<>:$to,
                        StringRefParameter<>:$reason);
  let assemblyFormat = "`<` $from `->` $to `,` $reason `>`";
}

def M3_ShardingAttr : M3_Attr<"Sharding", "sharding"> {
  let summary = "how a weight or an activation is divided over the ranks of a named group";
  let description = [{
    `#m3.sharding<"tp", dim = 0, count = 4>`: dimension `dim` is cut into `count` equal slices, one a
    rank of group "tp".

    M3-C34: the group has a name, dim is not negative and count is positive.
  }];
  let parameters = (ins StringRefParameter<>:$group, "int64_t":$dim, "int64_t":$count);
  let assemblyFormat = "`<` $group `,` struct($dim, $count) `>`";
  let genVerifyDecl = 1;
}

#endif
