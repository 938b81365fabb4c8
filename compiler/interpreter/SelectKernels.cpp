// Choices: blocks of the sparse attention and experts.
#include "compiler/interpreter/Kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace m3c::interpreter {
namespace {

/// Order of scores: larger first, NaN last.
bool better(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return !std::isnan(a) && std::isnan(b);
  return a > b;
}

/// The `count` best of `scores`, as ascending ids.
std::vector<int32_t> bestIds(std::vector<double> scores, int64_t count) {
  std::vector<int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    double left = scores[size_t(a)], right = scores[size_t(b)];
    return better(left, right) || (!better(right, left) && a < b);
  });
  ids.resize(size_t(std::min<int64_t>(count, int64_t(ids.size()))));
  std::sort(ids.begin(), ids.end());
  return ids;
}

} // namespace

Tensor blockTopk(const Tensor &scores, const Batch &batch, int64_t k, int64_t init, int64_t local) {
  int64_t heads = scores.shape[1], blocks = scores.shape[2];
  Tensor chosen = Tensor::ofIds({scores.rows(), heads, k}, -1);
  for (int64_t r = 0; r < scores.rows(); ++r) {
    int64_t own = batch.positions[size_t(r)] / PagedCache::pageTokens;
    for (int64_t g = 0; g < heads; ++g) {
      const double *row = scores.row(r) + g * blocks;
      std::vector<double> causal(row, row + own + 1);
      for (int64_t b = 0; b <= own; ++b)
        if (b < init || b > own - local)
          causal[size_t(b)] = std::numeric_limits<double>::infinity();
      std::vector<int32_t> ids = bestIds(std::move(causal), k);
      std::copy(ids.begin(), ids.end(), chosen.ids.begin() + (r * heads + g) * k);
    }
  }
  return chosen;
}

Routing route(const Tensor &x, const Matrix &router, const Matrix *bias, int64_t topK, double scale,
              unsigned threads) {
  Tensor scores = multiply(x, router, threads);
  Routing routing{Tensor::ofIds({x.rows(), topK}), Tensor::ofReals({x.rows(), topK})};
  for (int64_t r = 0; r < x.rows(); ++r) {
    std::vector<double> biased(size_t(router.rows));
    for (int64_t e = 0; e < router.rows; ++e) {
      double &s = scores.row(r)[e];
      s = 1 / (1 + std::exp(-s));
      biased[size_t(e)] = bias ? s + double(bias->values[size_t(e)]) : s;
    }
    std::vector<int32_t> ids = bestIds(std::move(biased), topK);
    double total = 0;
    for (int32_t id : ids)
      total += scores.row(r)[id];
    for (size_t i = 0; i < ids.size(); ++i) {
      routing.ids.ids[size_t(r * topK) + i] = ids[i];
      routing.weights.row(r)[i] = scale * scores.row(r)[ids[i]] / total;
    }
  }
  return routing;
}

} // namespace m3c::interpreter
