// What each m3 operation computes, in double precision, on plain tensors. Shapes: rows are tokens.
#pragma once

#include "compiler/interpreter/Linear.h"
#include "compiler/interpreter/PagedCache.h"

namespace m3c::interpreter {

/// The weights of one layer's experts, each [E] matrices, or one for a shared expert.
struct SwigluParams {
  double alpha, limit;
};

/// cos then sin of F32(position) · F32(theta^(-2i/rotary)); the frequency and the angle are F32.
Tensor ropeTable(const Batch &batch, double theta, int64_t rotary);
/// Each group of `weight.size()` consecutive values of a row is normed by itself.
Tensor gemmaNorm(const Tensor &x, const Matrix &weight, double eps);
Tensor rotate(const Tensor &x, const Tensor &table, int64_t heads);
Tensor swiglu(const Tensor &gate, const Tensor &up, SwigluParams params);
Tensor quantize(const Tensor &x, Step step);

void writeCache(PagedCache &cache, const Batch &batch, int64_t layer, const Tensor &keys,
                const Tensor &values, const Tensor *indexKeys);
/// [rows, KV heads, blocks]: block maxima; -inf after the row's own block; NaN if a product is.
Tensor indexScores(const Tensor &query, const PagedCache &cache, const Batch &batch, int64_t layer,
                   unsigned threads);
/// Ascending ids of the k best blocks of each row and head, -1 at the end.
Tensor blockTopk(const Tensor &scores, const Batch &batch, int64_t k, int64_t init, int64_t local);
/// `blocks` [rows, KV heads, k], or null for every block up to the row's own.
Tensor attention(const Tensor &query, const PagedCache &cache, const Batch &batch, int64_t layer,
                 double scale, const Tensor *blocks, unsigned threads);

struct Routing {
  Tensor ids;     ///< [rows, top-k], ascending
  Tensor weights; ///< [rows, top-k], with the routed scale
};
/// `bias` may be null. Ties: the lower id.
Routing route(const Tensor &x, const Matrix &router, const Matrix *bias, int64_t topK, double scale,
              unsigned threads);

/// Index of the largest element of each row; ties: the lowest; NaN never wins.
Tensor argmax(const Tensor &logits);
/// First id whose cumulative softmax(logits / temperature) exceeds the row's uniform number.
Tensor sample(const Tensor &logits, const Tensor &temperature, const Tensor &uniform);

} // namespace m3c::interpreter
