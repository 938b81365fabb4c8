#ifndef M3C_TILE_DIALECT_TD
#define M3C_TILE_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let summary = "One kernel, its structure explicit: grid, roles, rings, buffers, operand sides";
  let description = [{
    A `tile.kernel` is what a person tunes: which loops run over what, which tile sits in registers,
    where weights are dequantised, how many stages a ring has, which role fills it. Nothing of it is
    decided again below; the printer walks it and writes one call per op.

    Register tiles are two-dimensional SSA values. Memory is reached through views, rings through
    acquire / commit / wait / release. Control flow and scalar arithmetic are upstream `scf`, `arith`
    and `math`.
  }];
  let cppNamespace = "::m3c::tile";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::math::MathDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Tile_Enum<string name, string description, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, description, cases> {
  let cppNamespace = "::m3c::tile";
  let genSpecializedAttr = 0;
}

def Tile_Space : Tile_Enum<"Space", "where a view lives", [
    I32EnumAttrCase<"Global", 0, "global">, I32EnumAttrCase<"Shared", 1, "shared">,
    I32EnumAttrCase<"Tensor", 2, "tensor">]>;
def Tile_Axis : Tile_Enum<"Axis", "grid axis", [
    I32EnumAttrCase<"X", 0, "x">, I32EnumAttrCase<"Y", 1, "y">, I32EnumAttrCase<"Z", 2, "z">]>;
def Tile_ReduceKind : Tile_Enum<"ReduceKind", "reduction", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"MaxOrNan", 2, "max_or_nan">]>;
def Tile_Side : Tile_Enum<"Side", "which operand of a product lies along the vector lanes", [
    I32EnumAttrCase<"B", 0, "b">, I32EnumAttrCase<"A", 1, "a">]>;
def Tile_Format : Tile_Enum<"Format", "element format of stored codes", [
    I32EnumAttrCase<"F32", 0, "f32">, I32EnumAttrCase<"BF16", 1, "bf16">,
    I32EnumAttrCase<"E4M3", 2, "e4m3">, I32EnumAttrCase<"E2M1", 3, "e2m1">,
    I32EnumAttrCase<"E8M0", 4, "e8m0">, I32EnumAttrCase<"UE4M3", 5, "ue4m3">]>;

def Tile_Layout : Tile_Enum<"Layout", "how a tile lies in the registers of a warp", [
    I32EnumAttrCase<"Lanes", 0, "lanes">, I32EnumAttrCase<"PerLane", 1, "per_lane">,
    I32EnumAttrCase<"MmaA", 2, "mma_a">, I32EnumAttrCase<"MmaB", 3, "mma_b">,
    I32EnumAttrCase<"MmaAcc", 4, "mma_acc">, I32EnumAttrCase<"MmaRows", 5, "mma_rows">,
    I32EnumAttrCase<"MmaColumns", 6, "mma_columns">, I32EnumAttrCase<"LaneRows", 7, "lane_rows">]>;

def Tile_Gate : Tile_Enum<"Gate", "side of a gate", [
    I32EnumAttrCase<"Full", 0, "full">, I32EnumAttrCase<"Empty", 1, "empty">]>;

def Tile_AxisAttr : EnumAttr<Tile_Dialect, Tile_Axis, "axis">;
def Tile_ReduceKindAttr : EnumAttr<Tile_Dialect, Tile_ReduceKind, "reduce_kind">;
def Tile_SideAttr : EnumAttr<Tile_Dialect, Tile_Side, "side">;
def Tile_GateAttr : EnumAttr<Tile_Dialect, Tile_Gate, "gate">;
def Tile_FormatAttr : EnumAttr<Tile_Dialect, Tile_Format, "format">;

class Tile_Type<string name, string typeMnemonic> : TypeDef<Tile_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Tile_TileType : Tile_Type<"Tile", "tile"> {
  let summary = "A register tile: rows × columns of one element type";
  let description = [{
    `!tile.tile<6x16xf32>`. Vector lanes run along the columns. A tile with one column is a set of
    scalars that broadcast against the lanes of another operand.

    Targets with matrix instructions have further layouts. `per_lane`: `!tile.tile<32x4xi32, per_lane>`
    gives each lane of a warp one row (two lanes share a row of 16). `mma_a` (16 rows × K), `mma_b`
    (K × columns) and `mma_acc` (16 × columns) are operands of matrix instructions: of m16n8k16 (PTX ISA,
    "Matrix fragments for mma.m16n8k16") or of what the target has instead; its device headers say which
    lane holds what. One freedom is taken: the four lanes that share a row or column hold K/4 consecutive
    k each. A product does not depend on the order of k, as long as both operands agree. `mma_rows` (16 × 1) and `mma_columns` (1 × columns)
    hold what a lane needs to broadcast against its rows or columns of an accumulator. `lane_rows`: each of
    32 rows is in a lane of its own, all its columns; of one row every lane has all columns.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols, "::mlir::Type":$element,
                        "::m3c::tile::Layout":$layout);
  let builders = [TypeBuilder<(ins "int64_t":$rows, "int64_t":$cols, "::mlir::Type":$element),
                              [{ return $_get($_ctxt, rows, cols, element, Layout::Lanes); }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_ViewType : Tile_Type<"View", "view"> {
  let summary = "A row-major array in memory";
  let description = [{
    `!tile.view<?x2048xf32>` or `!tile.view<512x16xf32, shared>`. Only the first dimension may be
    dynamic, so every stride is a constant; offsets are computed in 64 bits. In space `tensor` the first dimension
    are the 128 lanes of tensor memory, the second one its columns.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element,
                        "::m3c::tile::Space":$space);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Elements from one index of dimension `dim` to the next.
    int64_t getStride(unsigned dim) const;
    /// Bytes of the whole array; the shape must be static.
    int64_t getByteSize() const;
  }];
}

def Tile_RingType : Tile_Type<"Ring", "ring"> {
  let summary = "A ring of equal on-chip buffers between two roles";
  let description = [{
    `!tile.ring<2, 256x16xf32>`: two stages. A producer acquires a free stage, fills and commits it; a
    consumer waits for a filled stage, reads and releases it.
  }];
  let parameters = (ins "int64_t":$stages, ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The view that `acquire` and `wait` give.
    ::m3c::tile::ViewType getStageType() const;
    int64_t getByteSize() const;
  }];
}

def Tile_GatesType : Tile_Type<"Gates", "gates"> {
  let summary = "Barriers of some stages";
  let description = [{ `!tile.gates<2>`: of two stages, for each one that it is full and one that it is empty. }];
  let parameters = (ins "int64_t":$stages);
  let assemblyFormat = "`<` $stages `>`";
}

#endif
