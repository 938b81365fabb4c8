#include "compiler/interpreter/Linear.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace m3c::interpreter {
namespace {

constexpr int64_t rowBlock = 8; // rows of x whose sums are kept in registers together

/// y[r, n] for 8 rows of x, given as [k][8], and outputs n0, n0 + 1.
void multiplyPair(const double *x, const Matrix &w, int64_t n0, double (*sums)[rowBlock]) {
  const float *w0 = w.values.data() + n0 * w.cols, *w1 = w0 + w.cols;
  double a[rowBlock] = {}, b[rowBlock] = {};
  for (int64_t k = 0; k < w.cols; ++k) {
    double f0 = w0[k], f1 = w1[k];
    for (int64_t r = 0; r < rowBlock; ++r) {
      a[r] += f0 * x[k * rowBlock + r];
      b[r] += f1 * x[k * rowBlock + r];
    }
  }
  std::copy_n(a, rowBlock, sums[0]);
  std::copy_n(b, rowBlock, sums[1]);
}

double multiplyOne(const double *x, int64_t stride, const float *w, int64_t cols) {
  double sum = 0;
  for (int64_t k = 0; k < cols; ++k)
    sum += double(w[k]) * x[k * stride];
  return sum;
}

void multiplyBlock(const Tensor &x, const Matrix &w, int64_t row, int64_t outBegin, int64_t outEnd,
                   Tensor &y) {
  int64_t count = std::min(rowBlock, x.rows() - row);
  std::vector<double> packed(size_t(w.cols * rowBlock));
  for (int64_t r = 0; r < count; ++r)
    for (int64_t k = 0; k < w.cols; ++k)
      packed[size_t(k * rowBlock + r)] = x.row(row + r)[k];
  int64_t n = outBegin;
  for (; n + 2 <= outEnd; n += 2) {
    double sums[2][rowBlock];
    multiplyPair(packed.data(), w, n, sums);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < 2; ++i)
        y.row(row + r)[n + i] = sums[i][r] * w.multiplier;
  }
  for (; n < outEnd; ++n)
    for (int64_t r = 0; r < count; ++r)
      y.row(row + r)[n] = w.multiplier * multiplyOne(packed.data() + r, rowBlock,
                                                     w.values.data() + n * w.cols, w.cols);
}

/// Few rows: a chain of sums per output, four outputs at a time.
void multiplyRow(const Tensor &x, const Matrix &w, int64_t row, int64_t outBegin, int64_t outEnd,
                 Tensor &y) {
  const double *in = x.row(row);
  int64_t n = outBegin;
  for (; n + 4 <= outEnd; n += 4) {
    const float *w0 = w.values.data() + n * w.cols;
    double sums[4] = {};
    for (int64_t k = 0; k < w.cols; ++k)
      for (int64_t i = 0; i < 4; ++i)
        sums[i] += double(w0[i * w.cols + k]) * in[k];
    for (int64_t i = 0; i < 4; ++i)
      y.row(row)[n + i] = sums[i] * w.multiplier;
  }
  for (; n < outEnd; ++n)
    y.row(row)[n] = w.multiplier * multiplyOne(in, 1, w.values.data() + n * w.cols, w.cols);
}

} // namespace

void parallelFor(unsigned threads, int64_t count, int64_t grain,
                 const std::function<void(int64_t, int64_t)> &body) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    try {
      for (int64_t begin; (begin = next.fetch_add(grain)) < count;)
        body(begin, std::min(begin + grain, count));
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < threads && count > grain; ++i)
    helpers.emplace_back(work);
  work();
  helpers.clear(); // joins
  if (failure)
    std::rethrow_exception(failure);
}

Tensor multiply(const Tensor &x, const Matrix &w, unsigned threads) {
  Tensor y = Tensor::ofReals({x.rows(), w.rows});
  constexpr int64_t outBlock = 64; // outputs of one piece of work; their weights stay in cache
  bool few = x.rows() < rowBlock / 2;
  parallelFor(threads, (w.rows + outBlock - 1) / outBlock, 1, [&](int64_t begin, int64_t end) {
    int64_t outBegin = begin * outBlock, outEnd = std::min(end * outBlock, w.rows);
    for (int64_t row = 0; row < x.rows(); row += few ? 1 : rowBlock)
      (few ? multiplyRow : multiplyBlock)(x, w, row, outBegin, outEnd, y);
  });
  return y;
}

double dot(const double *a, const double *b, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int64_t j = 0; j < 8; ++j)
      sums[j] += a[i + j] * b[i + j];
  double sum = 0;
  for (; i < count; ++i)
    sum += a[i] * b[i];
  for (double part : sums)
    sum += part;
  return sum;
}

} // namespace m3c::interpreter
