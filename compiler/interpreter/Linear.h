// Matrix products in double precision and the division of work over threads.
#pragma once

#include "compiler/interpreter/Values.h"

namespace m3c::interpreter {

/// A dequantised matrix: element (n,k) is `values[n·cols + k] · multiplier`. The product of codes
/// and block scales is exact in F32; the FP32 scale of a whole matrix is applied to sums.
struct Matrix {
  int64_t rows = 0, cols = 0;
  double multiplier = 1;
  std::vector<float> values;
};

/// Calls `body(begin, end)` on consecutive pieces of [0, count) from `threads` threads; the pieces
/// are at most `grain` long.
void parallelFor(unsigned threads, int64_t count, int64_t grain,
                 const std::function<void(int64_t, int64_t)> &body);

/// x [rows, cols of w] times the transpose of w. Each sum runs over ascending k, whatever the
/// number of rows and threads.
Tensor multiply(const Tensor &x, const Matrix &w, unsigned threads);

/// Σ a[i]·b[i]; the order of the sum is fixed but not ascending.
double dot(const double *a, const double *b, int64_t count);

} // namespace m3c::interpreter
