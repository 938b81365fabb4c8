// Operations on the paged cache: writing, index scores, attention.
#include "compiler/interpreter/Kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace m3c::interpreter {
namespace {

constexpr int64_t block = PagedCache::pageTokens;
constexpr double infinity = std::numeric_limits<double>::infinity();

int32_t pageOf(const Batch &batch, int64_t row, int64_t blockId) {
  return batch.pageTable.at(size_t(batch.sequenceOfRow[size_t(row)])).at(size_t(blockId));
}

/// Cached tokens of a block that the row at `position` may see.
int64_t visibleTokens(int64_t position, int64_t blockId) {
  return std::clamp<int64_t>(position - blockId * block + 1, 0, block);
}

/// max over the visible keys of ⟨query, key⟩; a NaN product wins.
double blockMax(const double *query, const double *keys, int64_t tokens, int64_t dim) {
  double best = -infinity;
  for (int64_t t = 0; t < tokens; ++t) {
    double product = dot(query, keys + t * dim, dim);
    if (product > best || std::isnan(product))
      best = product;
    if (std::isnan(best))
      break;
  }
  return best;
}

/// Softmax-weighted sum of values for one query head over the listed blocks.
void attendHead(const double *query, const PagedCache &cache, const Batch &batch, int64_t row,
                int64_t layer, int64_t head, double scale, std::span<const int32_t> blocks,
                double *out) {
  int64_t dim = cache.shape().headDim, position = batch.positions[size_t(row)];
  std::vector<double> scores;
  for (int32_t id : blocks) {
    const double *keys = cache.read(Lane::Key, layer, pageOf(batch, row, id), head);
    for (int64_t t = 0; t < visibleTokens(position, id); ++t)
      scores.push_back(dot(query, keys + t * dim, dim) * scale);
  }
  double largest = *std::max_element(scores.begin(), scores.end()), total = 0;
  std::fill_n(out, dim, 0);
  size_t next = 0;
  for (int32_t id : blocks) {
    const double *values = cache.read(Lane::Value, layer, pageOf(batch, row, id), head);
    for (int64_t t = 0; t < visibleTokens(position, id); ++t) {
      double p = std::exp(scores[next++] - largest);
      total += p;
      for (int64_t d = 0; d < dim; ++d)
        out[d] += p * values[t * dim + d];
    }
  }
  for (int64_t d = 0; d < dim; ++d)
    out[d] /= total;
}

/// The blocks that a row's KV head attends to: the selected ones, or all up to its own.
std::vector<int32_t> blocksOf(const Batch &batch, const Tensor *selected, int64_t row,
                              int64_t head) {
  std::vector<int32_t> ids;
  if (!selected) {
    ids.resize(size_t(batch.positions[size_t(row)] / block + 1));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  int64_t k = selected->shape[2];
  const int32_t *list = selected->ids.data() + (row * selected->shape[1] + head) * k;
  std::copy_if(list, list + k, std::back_inserter(ids), [](int32_t id) { return id >= 0; });
  return ids;
}

} // namespace

void writeCache(PagedCache &cache, const Batch &batch, int64_t layer, const Tensor &keys,
                const Tensor &values, const Tensor *indexKeys) {
  const CacheShape &shape = cache.shape();
  for (int64_t r = 0; r < batch.rows(); ++r) {
    int64_t position = batch.positions[size_t(r)], token = position % block;
    int32_t page = pageOf(batch, r, position / block);
    for (int64_t h = 0; h < shape.kvHeads; ++h) {
      size_t dim = size_t(shape.headDim);
      cache.write(Lane::Key, layer, page, token, h, {keys.row(r) + h * shape.headDim, dim});
      cache.write(Lane::Value, layer, page, token, h, {values.row(r) + h * shape.headDim, dim});
    }
    if (indexKeys)
      cache.write(Lane::IndexKey, layer, page, token, 0,
                  {indexKeys->row(r), size_t(shape.indexDim)});
  }
}

Tensor indexScores(const Tensor &query, const PagedCache &cache, const Batch &batch, int64_t layer,
                   unsigned threads) {
  int64_t heads = cache.shape().kvHeads, dim = cache.shape().indexDim, blocks = batch.blocks();
  Tensor scores = Tensor::ofReals({batch.rows(), heads, blocks});
  std::fill(scores.reals.begin(), scores.reals.end(), -infinity);
  parallelFor(threads, batch.rows(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t position = batch.positions[size_t(r)];
      for (int64_t b = 0; b <= position / block; ++b) {
        const double *keys = cache.read(Lane::IndexKey, layer, pageOf(batch, r, b), 0);
        for (int64_t g = 0; g < heads; ++g)
          scores.row(r)[g * blocks + b] =
              blockMax(query.row(r) + g * dim, keys, visibleTokens(position, b), dim);
      }
    }
  });
  return scores;
}

Tensor attention(const Tensor &query, const PagedCache &cache, const Batch &batch, int64_t layer,
                 double scale, const Tensor *blocks, unsigned threads) {
  Tensor out = query;
  int64_t dim = cache.shape().headDim, heads = query.width() / dim;
  int64_t group = heads / cache.shape().kvHeads;
  parallelFor(threads, batch.rows(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t h = 0; h < heads; ++h)
        attendHead(query.row(r) + h * dim, cache, batch, r, layer, h / group, scale,
                   blocksOf(batch, blocks, r, h / group), out.row(r) + h * dim);
  });
  return out;
}

} // namespace m3c::interpreter
