// The `plan` dialect: the host program of one model step. Attributes and types. Its C++ namespace is
// m3c::planir, because m3c::plan holds the plan file's own types.
#ifndef M3C_DIALECTS_PLAN_DIALECT_TD
#define M3C_DIALECTS_PLAN_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::m3c::planir";
  let summary = "What the host does for one step: buffers of one arena, launches, taps, shape buckets";
  let description = [{
    A module in this dialect is the plan file in text: weight buffers with the recipes that fill
    them, the cache layout, kernels, and a program with one bucket per shape. Within a bucket every
    count of rows is a number; only the count of 128-token blocks (`blocks`) stays open, so every
    size and offset is affine in it. Order is meaning: launches run from top to bottom. See
    Rationale.md.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Plan_Type<string name, string typeMnemonic> : TypeDef<Plan_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Plan_Buffer : Plan_Type<"Buffer", "buffer"> {
  let summary = "memory in the arena of a bucket";
}
def Plan_Pointer : Plan_Type<"Pointer", "pointer"> {
  let summary = "memory outside the arena: a weight buffer, the cache pool, a batch array";
}
def Plan_Operand : AnyTypeOf<[Plan_Buffer, Plan_Pointer, I64], "kernel argument">;

// A 64-bit number whose accessor is signed.
def Plan_Int : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer attribute">;

class Plan_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::m3c::planir";
  let genSpecializedAttr = 0;
}
class Plan_EnumAttr<EnumAttrInfo info, string mnemonic> : EnumAttr<Plan_Dialect, info, mnemonic> {
  let assemblyFormat = "$value";
}

// The numbers of these enumerations are those of runtime/plan/plan.fbs.
def Plan_RecipeEnum : Plan_Enum<"Recipe", "what a checkpoint tensor becomes in a weight buffer", [
  I32EnumAttrCase<"Raw", 0, "raw">,
  I32EnumAttrCase<"ToF32", 1, "to_f32">,
  I32EnumAttrCase<"PanelWords", 2, "panel_words">,
  I32EnumAttrCase<"PanelScales", 3, "panel_scales">,
  I32EnumAttrCase<"Scalar", 4, "scalar">,
  I32EnumAttrCase<"Reciprocal", 5, "reciprocal">,
  I32EnumAttrCase<"FragmentWords", 6, "fragment_words">,
  I32EnumAttrCase<"FragmentScales", 7, "fragment_scales">
]>;
def Plan_RecipeAttr : Plan_EnumAttr<Plan_RecipeEnum, "recipe">;

def Plan_CacheTypeEnum : Plan_Enum<"CacheType", "storage of keys and values", [
  I32EnumAttrCase<"F32", 0, "f32">,
  I32EnumAttrCase<"Bf16", 1, "bf16">,
  I32EnumAttrCase<"Fp8", 2, "fp8">,
  I32EnumAttrCase<"Nvfp4", 3, "nvfp4">
]>;
def Plan_CacheTypeAttr : Plan_EnumAttr<Plan_CacheTypeEnum, "cache_type">;

def Plan_CacheGridEnum : Plan_Enum<"CacheGrid", "how cached values enter the arithmetic", [
  I32EnumAttrCase<"Exact", 0, "exact">,
  I32EnumAttrCase<"E4m3", 1, "e4m3">
]>;
def Plan_CacheGridAttr : Plan_EnumAttr<Plan_CacheGridEnum, "cache_grid">;

def Plan_BatchArrayEnum : Plan_Enum<"BatchArray", "arrays that describe a step", [
  I32EnumAttrCase<"Counts", 0, "counts">,
  I32EnumAttrCase<"TokenIds", 1, "token_ids">,
  I32EnumAttrCase<"Positions", 2, "positions">,
  I32EnumAttrCase<"SequenceOfRow", 3, "sequence_of_row">,
  I32EnumAttrCase<"PageTable", 4, "page_table">,
  I32EnumAttrCase<"LogitRows", 5, "logit_rows">,
  I32EnumAttrCase<"Counters", 6, "counters">
]>;
def Plan_BatchArrayAttr : Plan_EnumAttr<Plan_BatchArrayEnum, "batch_array">;

def Plan_TapKindEnum : Plan_Enum<"TapKind", "intermediates that a trace can copy out", [
  I32EnumAttrCase<"Blocks", 0, "blocks">,
  I32EnumAttrCase<"Experts", 1, "experts">,
  I32EnumAttrCase<"Hidden", 2, "hidden">
]>;
def Plan_TapKindAttr : Plan_EnumAttr<Plan_TapKindEnum, "tap_kind">;

// How a launch uses an argument; printed before each argument of plan.launch.
def Plan_AccessEnum : Plan_Enum<"Access", "how a launch uses an argument", [
  I32EnumAttrCase<"Read", 1, "r">,
  I32EnumAttrCase<"Write", 2, "w">,
  I32EnumAttrCase<"ReadWrite", 3, "rw">
]>;

#endif
