// A ragged batch over a filled cache, and the queries of its rows: input of the attention tests.
#pragma once

#include "compiler/interpreter/Kernels.h"
#include "tests/numerics/CacheImage.h"
#include "tests/numerics/KernelProgram.h"

#include <random>

namespace m3c::numerics {

/// A row of the batch.
struct RowAt {
  int32_t sequence, position;
};

struct SceneSpec {
  bool sparse = true; ///< else dense attention, and no index keys
  bool attend = true; ///< else the selection alone; keys and values stay unwritten
  bool bf16 = false;  ///< queries and result are BF16 rows, else F32
  CacheSpec cache;
  int64_t heads = 16; ///< query heads
  int64_t k = 16, init = 0;
  std::vector<RowAt> rows;
  unsigned seed = 1;
  bool farPage = true; ///< one page number is beyond 32-bit byte offsets
  int32_t pages = 40;  ///< of the cache without a far page
};

class Scene {
public:
  /// Fills every token that a row may see with normal deviates; pages are shuffled, one number is
  /// beyond 32-bit byte offsets, and what is not written holds NaN codes.
  explicit Scene(const SceneSpec &spec);

  /// Text of the module: queries → index_topk → sparse attention, or dense attention.
  static std::string module(const SceneSpec &spec);
  StepInput input();

  /// The reference on the same cache and queries.
  interpreter::Tensor scores() const;
  interpreter::Tensor selection(const interpreter::Tensor &scores) const;
  /// `blocks` null: dense.
  interpreter::Tensor attention(const interpreter::Tensor *blocks) const;

  /// Overwrites an index key or a key or value, in both forms.
  void write(interpreter::Lane lane, int32_t sequence, int64_t position, int64_t head,
             std::span<const double> values);
  double scale() const;
  /// The batch and the queries become those of some of the rows.
  void keepRows(const std::vector<size_t> &rows);

  SceneSpec spec;
  interpreter::Batch batch;
  CacheImage image;
  interpreter::Tensor query, indexQuery; ///< [rows, heads · dims], on their grids

private:
  void makePages();
  interpreter::Tensor makeQuery(int64_t heads, int64_t dims, interpreter::Step step);
  std::vector<double> deviates(int64_t count);

  std::mt19937 random;
};

/// Chip and bucket → program, built once in a test program.
KernelProgram &program(const SceneSpec &spec, const std::string &chip, int64_t rows,
                       const std::vector<std::string> &schedule = {});

/// Rows of one sequence at consecutive positions.
std::vector<RowAt> chunkOf(int32_t sequence, int32_t first, int32_t count);
/// The last row of a sequence of each length.
std::vector<RowAt> rowsOfLengths(const std::vector<int32_t> &lengths);

/// Bound of attention over `keys` keys by kernels that round the weights of the softmax to FP16:
/// scores are sums of exact products in FP32, within (D + 1) · 2^-24 · Σ |q k| ((2D + 7) where two
/// operands have the queries); weights are off by
/// 2^-11 in numerator and denominator alike, e^x by 2^-21; sums of n keys are FP32 (n · 2^-24); a
/// value is smaller than 6; results in BF16 are rounded (2^-9 of them).
double attentionBound(const Scene &scene, int64_t keys);

} // namespace m3c::numerics
