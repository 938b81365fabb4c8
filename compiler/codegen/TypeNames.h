// Names of types in printed text: those of the device headers.
#pragma once

#include "dialects/tile/Tile.h"

#include <string>

namespace m3c::codegen {

std::string elementType(mlir::Type type);
/// "element, rows, columns".
std::string tileArguments(tile::TileType type);
std::string tileType(tile::TileType type);
/// What stands between < and > of a function that makes a tile.
std::string madeType(tile::TileType type);
/// Of a variable: a tile, a pointer, a scalar.
std::string variableType(mlir::Type type);

} // namespace m3c::codegen
