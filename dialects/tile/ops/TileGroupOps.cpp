// Verifiers of the operations of TileGroupOps.td.
#include "dialects/tile/Tile.h"

using namespace mlir;
using namespace m3c::tile;

/// Dims of a right operand of queries in FP16; 0 for another tile.
static int64_t queryDims(TileType tile) {
  bool fits = tile.getLayout() == Layout::MmaB && tile.getElement().isF16() &&
              tile.getRows() % 16 == 0 && tile.getCols() % 8 == 0;
  return fits ? tile.getRows() : 0;
}

LogicalResult LoadGroupsOp::verify() {
  ViewType view = getView().getType();
  int64_t dims = queryDims(getResult().getType());
  bool element = view.getElement().isF32() || view.getElement().isInteger(16);
  if (!dims || view.getShape().size() != 2 || view.getShape()[1] != dims || !element)
    return emitOpError("T-M27: rows of f32 or i16 give an FP16 operand in layout mma_b, found ")
           << view << " and " << getResult().getType();
  if (getIndices().size() != 2)
    return emitOpError("T-M28: a row and a column expected, found ") << getIndices().size();
  return success();
}

LogicalResult MmaGroupsOp::verify() {
  ViewType codes = getCodes().getType(), scales = getScales().getType();
  int64_t dims = queryDims(getQueries().getType());
  auto bytes = [](ViewType view, size_t rank) {
    return view.getSpace() == Space::Shared && view.getShape().size() == rank &&
           view.getElement().isInteger(8);
  };
  if (!dims || !bytes(codes, 2) || codes.getShape()[1] != dims / 2 || !bytes(scales, 1) ||
      scales.getShape()[0] != codes.getShape()[0] * dims / 16)
    return emitOpError("T-A23: ") << codes << " and " << scales
                                  << " hold no tokens with a scale for each sixteen dims of "
                                  << getQueries().getType();
  TileType out = getResult().getType();
  if (out.getLayout() != Layout::MmaAcc || !out.getElement().isF32() || out.getRows() != 16 ||
      out.getCols() != getQueries().getType().getCols())
    return emitOpError("T-A21: an accumulator of 16 rows and the queries' columns expected, found ")
           << out;
  return success();
}
