#include "compiler/codegen/TypeNames.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace m3c::tile;
using llvm::formatv;

namespace m3c::codegen {

std::string elementType(Type type) {
  if (type.isF32())
    return "f32";
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  if (isa<Float8E4M3FNType>(type))
    return "e4m3";
  if (type.isF64())
    return "f64";
  if (type.isIndex())
    return "i64";
  if (type.isInteger(1))
    return "bool";
  if (type.isInteger(8))
    return "u8";
  if (type.isInteger(16))
    return "u16";
  return formatv("i{0}", type.getIntOrFloatBitWidth());
}

std::string tileArguments(TileType type) {
  return formatv("{0}, {1}, {2}", elementType(type.getElement()), type.getRows(), type.getCols());
}

/// The operands of products with packed weights, 64 k of BF16, have short names.
static bool isWeightOperand(TileType type, int64_t k) {
  return k == 64 && type.getElement().isBF16();
}

std::string tileType(TileType type) {
  switch (type.getLayout()) {
  case Layout::Lanes:
    return "Tile<" + tileArguments(type) + ">";
  case Layout::PerLane:
    return formatv("LaneTile<{0}, {1}, {2}>", elementType(type.getElement()), type.getRows(),
                   type.getCols());
  case Layout::MmaA:
    if (type.getElement().isF32())
      return "FragmentSplit";
    if (isWeightOperand(type, type.getCols()))
      return "FragmentA";
    return formatv("OperandA<{0}, {1}>", elementType(type.getElement()), type.getCols());
  case Layout::MmaB:
    if (isWeightOperand(type, type.getRows()))
      return formatv("FragmentB<{0}>", type.getCols());
    return formatv("OperandB<{0}>", tileArguments(type));
  case Layout::MmaAcc:
    if (type.getElement().isF32())
      return formatv("FragmentAcc<{0}>", type.getCols());
    return formatv("AccOf<{0}, {1}>", elementType(type.getElement()), type.getCols());
  case Layout::MmaRows:
    return formatv("RowsOfAcc<{0}>", elementType(type.getElement()));
  case Layout::LaneRows:
    return "RowTile<" + tileArguments(type) + ">";
  case Layout::MmaColumns:
    return formatv("ColumnsOfAcc<{0}, {1}>", elementType(type.getElement()), type.getCols());
  }
  llvm_unreachable("layout");
}

std::string madeType(TileType type) {
  return type.getLayout() == Layout::Lanes ? tileArguments(type) : tileType(type);
}

std::string variableType(Type type) {
  if (auto tile = dyn_cast<TileType>(type))
    return tileType(tile);
  if (auto view = dyn_cast<ViewType>(type); view && view.getSpace() == Space::Tensor)
    return "u32"; // an address of its own
  if (auto view = dyn_cast<ViewType>(type))
    return elementType(view.getElement()) + " *";
  return elementType(type);
}

} // namespace m3c::codegen
