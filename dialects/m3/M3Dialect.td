// The m3 dialect: what the model computes, free of any target.
#ifndef M3C_DIALECTS_M3_M3DIALECT
#define M3C_DIALECTS_M3_M3DIALECT

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def M3_Dialect : Dialect {
  let name = "m3";
  let cppNamespace = "::m3c::m3";
  let summary = "The MiniMax-M3 text model as a graph of named operations.";
  let description = [{
    One function describes one step over a ragged batch of rows (tokens). Activations are
    `tensor<?xNxf32>` or `tensor<?xNxbf16>`, one row per token; weights are module-level symbols with a
    storage encoding; keys and values live behind a paged-cache handle on which operations have memory
    effects.

    An operation reads the values of its operands exactly, computes in F32, and rounds its result once to
    the result's element type (BF16: nearest, ties to even). So the element type of a tensor says whether
    what passes between two operations is rounded, in a fused body as outside of it.
    The reference interpreter (`compiler/interpreter`) defines what each operation means.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

class M3_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::m3c::m3";
  let genSpecializedAttr = 0;
}

def M3_Encoding : M3_Enum<"Encoding", "how a matrix is stored in the checkpoint", [
  I32EnumAttrCase<"F32", 0, "f32">,
  I32EnumAttrCase<"BF16", 1, "bf16">,
  I32EnumAttrCase<"MXFP8", 2, "mxfp8">,
  I32EnumAttrCase<"NVFP4", 3, "nvfp4">,
  I32EnumAttrCase<"NVFP4Packed", 4, "nvfp4_packed">,
]>;

def M3_CacheStorage : M3_Enum<"CacheStorage", "how keys and values are stored", [
  I32EnumAttrCase<"F32", 0, "f32">,
  I32EnumAttrCase<"BF16", 1, "bf16">,
  I32EnumAttrCase<"FP8", 2, "fp8">,
  I32EnumAttrCase<"NVFP4", 3, "nvfp4">,
]>;

def M3_CacheGrid : M3_Enum<"CacheGrid", "how stored keys and values enter the arithmetic", [
  I32EnumAttrCase<"Exact", 0, "exact">,
  I32EnumAttrCase<"E4M3", 1, "e4m3">,
]>;

def M3_Activations : M3_Enum<"Activations", "element type of what passes between operations", [
  I32EnumAttrCase<"F32", 0, "f32">,
  I32EnumAttrCase<"BF16", 1, "bf16">,
]>;

def M3_Grid : M3_Enum<"Grid", "the set of values that a quantisation step rounds to", [
  I32EnumAttrCase<"BF16", 0, "bf16">,
  I32EnumAttrCase<"E4M3", 1, "e4m3">,
  I32EnumAttrCase<"NVFP4", 2, "nvfp4">,
  I32EnumAttrCase<"NVFP4E4M3", 3, "nvfp4_e4m3">,
  I32EnumAttrCase<"MXFP8", 4, "mxfp8">,
]>;

def M3_PartRole : M3_Enum<"PartRole", "what a stored tensor contributes to a weight", [
  I32EnumAttrCase<"Values", 0, "values">,
  I32EnumAttrCase<"BlockScale", 1, "block_scale">,
  I32EnumAttrCase<"GlobalScale", 2, "global_scale">,
  I32EnumAttrCase<"InputScale", 3, "input_scale">,
]>;

#endif
