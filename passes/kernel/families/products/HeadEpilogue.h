// One head of one row after its projection: norm, rotation, rounding, and the write to a query
// buffer or to the paged cache.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

struct HeadShape {
  m3::CacheType cache;
  int64_t headDim, rotary; ///< dims of a head, and those of them that are rotated
  double eps;              ///< of the norm
};

/// What happens to one head of one row once its sums are there: all in registers, in pieces of
/// `chunk` dimensions.
class HeadEpilogue {
public:
  /// The sums are a row of `head` (shared, [rows, headDim]).
  HeadEpilogue(KernelBuilder &kb, const HeadShape &shape, int64_t chunk, Value head, Value local,
               Value row);
  /// The sums are a tile [1, headDim]; only for shapes that `staysInRegisters`.
  HeadEpilogue(KernelBuilder &kb, const HeadShape &shape, int64_t chunk, Value sums, Value row);

  static bool staysInRegisters(const HeadShape &shape, int64_t chunk) {
    return shape.rotary / 2 % chunk == 0;
  }
  /// The largest part of `chunk` that cuts a head evenly; groups of 16 dimensions are quantised.
  static int64_t fitChunk(int64_t chunk, const HeadShape &shape);

  void scale(Value factor);
  /// Gemma RMS norm with weights [headDim] of f32.
  void norm(Value weight);
  /// By the row's cosines and sines in `table` [rows, rotary] of f32.
  void rotate(Value table);
  /// Rounds the head as the type of the m3 value that it now is says.
  void roundTo(Value tensor);

  /// Writes the head to columns of a query buffer, on the E4M3 grid if asked for.
  void storeQuery(Value query, Value headIndex, bool onGrid);
  /// Writes the head to a slot of the row's page, at byte `slotOffset` of `pool`.
  void storeSlot(Value pool, Value slotOffset, Value token, bool values);

private:
  Values loadPieces(Value from, Value at);
  void eachPiece(llvm::function_ref<Value(Value)> function);
  /// Where pieces do not end at the half of the rotated dimensions.
  void rotateInMemory(Value table);

  KernelBuilder &kb;
  const HeadShape &shape;
  const int64_t chunk;
  Value head, local, row;
  Values pieces;
};

} // namespace m3c::kernel
