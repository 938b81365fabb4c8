// Rules that operations of several files share.
#pragma once

#include "dialects/tile/Tile.h"

namespace m3c::tile {

/// One index for each dimension of the view (T-M4).
mlir::LogicalResult verifyIndices(mlir::Operation *op, ViewType view, size_t count);

} // namespace m3c::tile
