// Block scores on matrix instructions: index keys of a page are the rows of the left operand, index
// queries of the rows that share a sequence its columns. The plain sibling is that of
// IndexScores.cpp.
#pragma once

#include "passes/kernel/families/cache/MatrixTiles.h"
#include "passes/kernel/families/selection/IndexScores.h"

namespace m3c::kernel {

/// Parameters: batch rows, index queries [rows · heads, dims], pool (at the layer's index slot),
/// scores [rows · heads · page-table row length]. Work item: a tile of rows × a part of the blocks
/// of each sequence in it. Schedule: `columns` (rows · heads of a tile at most: those of an
/// accumulator, or several times as many where rows of one sequence share pages), `consumers`
/// (warps, each with a page of its own), `loaders` (warps that bring pages; without: one),
/// `score_registers`, `load_registers` (of a thread of these roles; 0: those that a work item
/// begins with), `stages` (pages in flight), `parts`, `product` (CodeProduct: with Exact and Groups
/// keys are not on the E4M3 grid), `all_rows` (a work item is a part of the blocks of every
/// sequence in the step, up to 32 rows, so that all work items have equally many but for one, whose
/// ever rows are long; without, each tile has parts of its own). Products are exact, so are scores
/// whose sums fit FP32.
void emitMatrixScores(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
                      const Schedule &schedule, const MatrixUnit &unit);

/// Whether blocks of all rows are shared out together (`all_rows`).
bool sharesAllRows(const Schedule &schedule);

/// Whether there is a kernel with so many `columns`, this one or that of products in tensor memory,
/// for a step of so many rows.
mlir::LogicalResult checkScoreColumns(mlir::Location location, const IndexShape &shape,
                                      int64_t stepRows, const Schedule &schedule,
                                      const MatrixUnit &unit);

/// Rows of a tile: as many as fill the columns of an accumulator.
int64_t matrixScoreRows(const IndexShape &shape, const MatrixUnit &unit);

} // namespace m3c::kernel
