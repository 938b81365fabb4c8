// Weights from a checkpoint folder. Bytes are read past the mapping, so memory stays flat and a
// file that is cut while it is read gives an error.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/weights/WeightSource.h"

namespace m3c {

class CheckpointSource final : public WeightSource {
public:
  explicit CheckpointSource(const std::filesystem::path &folder);
  void check(const plan::WeightPiece &piece) const override;
  void read(const plan::WeightPiece &piece, uint64_t offset,
            std::span<std::byte> to) const override;
  std::string configDigest() const override;
  std::string configPath() const override;

private:
  Checkpoint checkpoint;
};

} // namespace m3c
