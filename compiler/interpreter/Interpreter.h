// The reference interpreter: runs m3 operations in double precision. It is the definition that
// kernels are tested against. A fused operation runs as its unfused body.
#pragma once

#include "compiler/interpreter/Kernels.h"
#include "compiler/interpreter/Weights.h"

#include "dialects/m3/M3.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace m3c::interpreter {

/// Called with choices as they are made.
struct Observer {
  std::function<void(int64_t layer, const Tensor &blocks)> blocks; ///< [rows, KV heads, k]
  std::function<void(const Tensor &ids)> experts; ///< [rows, top-k], MoE layers in their order
};

class Interpreter {
public:
  explicit Interpreter(WeightSource &weights, unsigned threads = 1)
      : weights(weights), threads(threads) {}

  Observer observer;

  /// Runs the operations of a block, the body of a function or of an m3.fused, on the values of its
  /// arguments; returns the operands of its terminator. Throws Error for an operation that is not
  /// known.
  std::vector<Value> run(mlir::Block &block, std::vector<Value> arguments);
  std::vector<Value> run(mlir::func::FuncOp function, std::vector<Value> arguments) {
    return run(function.getBody().front(), std::move(arguments));
  }
  std::vector<Value> run(m3::FusedOp fused, std::vector<Value> arguments) {
    return run(fused.getBody().front(), std::move(arguments));
  }

private:
  WeightSource &weights;
  unsigned threads;
};

/// What the cache type says about its arrays.
CacheShape cacheShape(m3::CacheType type);

/// The rounding step of a grid.
Step stepOf(m3::Grid grid);

} // namespace m3c::interpreter
