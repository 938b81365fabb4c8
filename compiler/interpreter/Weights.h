// Weights of the interpreter: dequantised on demand and kept up to a budget.
#pragma once

#include "compiler/interpreter/Linear.h"
#include "dialects/m3/M3.h"
#include "runtime/checkpoint/Checkpoint.h"

#include <list>
#include <map>
#include <memory>
#include <string>

namespace m3c::interpreter {

/// Where weights come from. `expert` is 0 for a weight that is no stack; a vector has one column.
class WeightSource {
public:
  virtual ~WeightSource() = default;
  virtual std::shared_ptr<const Matrix> load(m3::WeightOp weight, int64_t expert) = 0;
};

/// Matrices that a test supplies, by symbol (a stack's experts as "symbol#E").
class GivenWeights : public WeightSource {
public:
  std::map<std::string, std::shared_ptr<const Matrix>> matrices;
  std::shared_ptr<const Matrix> load(m3::WeightOp weight, int64_t expert) override;
};

/// Tensors of a checkpoint, checked for bad values as they are read. The least recently used
/// matrices are dropped above `budget` bytes.
class CheckpointWeights : public WeightSource {
public:
  explicit CheckpointWeights(const Checkpoint &checkpoint, size_t budget = size_t(2) << 30)
      : checkpoint(checkpoint), budget(budget) {}
  std::shared_ptr<const Matrix> load(m3::WeightOp weight, int64_t expert) override;

private:
  using Key = std::pair<std::string, int64_t>;
  struct Held {
    std::shared_ptr<const Matrix> matrix;
    std::list<Key>::iterator use;
  };
  void evict();

  const Checkpoint &checkpoint;
  size_t budget, heldBytes = 0;
  std::list<Key> uses; ///< most recent first
  std::map<Key, Held> held;
};

/// Reads and dequantises one matrix (or vector) of a weight.
Matrix readMatrix(const Checkpoint &checkpoint, m3::WeightOp weight, int64_t expert);

} // namespace m3c::interpreter
