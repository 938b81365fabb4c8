// Made-up weights of a sane scale, so that a model of any size runs without a checkpoint: every
// value is a function of (seed, tensor name, index). Matrices have a standard deviation near
// 1/sqrt(K), norm weights lie around 0 (they are applied as 1 + w), router biases are small, scales
// are positive and differ from group to group.
#pragma once

#include "runtime/weights/WeightSource.h"

#include <map>

namespace m3c {

class SyntheticSource final : public WeightSource {
public:
  /// The tables give the row length of the tensor that a per-tensor scale belongs to.
  SyntheticSource(uint64_t seed, const plan::Tables &tables);
  void check(const plan::WeightPiece &piece) const override;
  void read(const plan::WeightPiece &piece, uint64_t offset,
            std::span<std::byte> to) const override;
  std::optional<madeup::Values> madeUp(const plan::WeightPiece &piece) const override {
    return valuesOf(piece);
  }

private:
  madeup::Values valuesOf(const plan::WeightPiece &piece) const;
  uint64_t rowLength(const plan::WeightPiece &piece) const;

  uint64_t seed;
  /// Elements of a row of the matrix "X.weight" or "X.weight_packed", under "X".
  std::map<std::string, uint64_t, std::less<>> rowLengths;
};

} // namespace m3c
