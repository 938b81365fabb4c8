// Where the tensors of a plan's weight buffers come from.
#pragma once

#include "runtime/plan/plan_generated.h"
#include "runtime/weights/MadeUp.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace m3c {

class WeightSource {
public:
  virtual ~WeightSource() = default;
  /// Throws Error when the tensor of `piece` is missing or has another dtype or shape.
  virtual void check(const plan::WeightPiece &piece) const = 0;
  /// Fills `to` with bytes of the piece's tensor from byte `offset` on, both multiples of the
  /// element size. Throws Error when a value is one that no sound checkpoint holds (NaN, a scale of
  /// zero) or the file cannot be read. Many threads call it at once.
  virtual void read(const plan::WeightPiece &piece, uint64_t offset,
                    std::span<std::byte> to) const = 0;
  /// What the tensor's elements are where a rule makes them up, so that a device can do that
  /// itself.
  virtual std::optional<madeup::Values> madeUp(const plan::WeightPiece &) const {
    return std::nullopt;
  }
  /// Digest of the checkpoint's config.json as a plan's manifest has it; empty where there is none.
  virtual std::string configDigest() const { return ""; }
  /// Where config.json should be; empty for weights that are not read from a checkpoint.
  virtual std::string configPath() const { return ""; }
};

/// "synthetic:SEED" (a decimal number) gives made-up weights for the tables' shapes, anything else
/// is the path of a checkpoint folder. `tables` must outlive the source. Throws Error.
std::unique_ptr<WeightSource> openWeights(const std::string &where, const plan::Tables &tables);

/// Bytes of a piece's tensor as the checkpoint stores it.
uint64_t storedBytes(const plan::WeightPiece &piece);

} // namespace m3c
