#include "tests/numerics/Scene.h"

#include <cmath>
#include <set>

namespace m3c::numerics {

using namespace interpreter;

/// Dense layers have no index key in the page.
static CacheSpec cacheOf(const SceneSpec &spec) {
  CacheSpec cache = spec.cache;
  if (!spec.sparse)
    cache.indexDim = 0;
  return cache;
}

constexpr int64_t blockTokens = PagedCache::pageTokens;
constexpr int32_t hugePage = 100'000; // 8.3 GB in for the nvfp4 page of four KV heads

std::vector<RowAt> chunkOf(int32_t sequence, int32_t first, int32_t count) {
  std::vector<RowAt> rows;
  for (int32_t i = 0; i < count; ++i)
    rows.push_back({sequence, first + i});
  return rows;
}

std::vector<RowAt> rowsOfLengths(const std::vector<int32_t> &lengths) {
  std::vector<RowAt> rows;
  for (int32_t length : lengths)
    rows.push_back({int32_t(rows.size()), length - 1});
  return rows;
}

double attentionBound(const Scene &scene, int64_t keys) {
  double dims = double(scene.spec.cache.headDim), length = std::sqrt(dims) + 5, u = 0x1p-24;
  // FP32 queries on no grid are two operands: twice as many products, and 2^-22 of each query and
  // 2^-24 at least are lost, with Σ|k| ≤ √D |k|.
  bool halves = scene.spec.cache.storage == "fp8" && !scene.spec.bf16;
  double products = halves ? 2 * dims + 7 : dims + 1;
  double delta = 2 * products * u * scene.scale() * length * length;
  double weights = 2 * (0x1p-11 + 0x1p-21), sums = 2 * double(keys) * u;
  return (2 * delta + weights + sums + (scene.spec.bf16 ? 0x1p-9 : 0)) * 6;
}

Scene::Scene(const SceneSpec &spec)
    : spec(spec), image(cacheOf(spec), spec.farPage ? hugePage + 1 : spec.pages),
      random(spec.seed) {
  for (const RowAt &row : spec.rows) {
    batch.tokenIds.push_back(int32_t(batch.tokenIds.size()));
    batch.positions.push_back(row.position);
    batch.sequenceOfRow.push_back(row.sequence);
  }
  makePages();
  const CacheSpec &cache = spec.cache;
  bool rounded = cache.storage == "fp8" || cache.storage == "nvfp4";
  Step index = rounded ? Step::E4m3 : Step::None;
  indexQuery = makeQuery(cache.kvHeads, cache.indexDim, index);
  query = makeQuery(spec.heads, cache.headDim, cache.storage == "nvfp4" ? index : Step::None);
}

std::vector<double> Scene::deviates(int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(double(normal(random)));
  return values;
}

Tensor Scene::makeQuery(int64_t heads, int64_t dims, Step step) {
  Tensor tensor = Tensor::ofReals({batch.rows(), heads * dims});
  tensor.reals = deviates(tensor.elements());
  roundValues(step, tensor.reals);
  return tensor;
}

void Scene::makePages() {
  std::vector<int32_t> last;
  for (const RowAt &row : spec.rows) {
    last.resize(std::max<size_t>(last.size(), size_t(row.sequence) + 1), -1);
    last[size_t(row.sequence)] = std::max(last[size_t(row.sequence)], row.position);
  }
  int64_t count = 0;
  for (int32_t position : last)
    count += (position + blockTokens) / blockTokens;
  std::vector<int32_t> pages(static_cast<size_t>(count));
  std::iota(pages.begin(), pages.end(), 3);
  if (count && spec.farPage)
    pages[0] = hugePage;
  std::shuffle(pages.begin(), pages.end(), random);
  for (int32_t page : pages)
    image.poison(page);
  const CacheSpec &cache = spec.cache;
  for (size_t s = 0, next = 0; s < last.size(); ++s) {
    batch.pageTable.emplace_back();
    for (int64_t p = 0; p <= last[s]; ++p) {
      if (p % blockTokens == 0)
        batch.pageTable.back().push_back(pages[next++]);
      for (int64_t h = 0; spec.attend && h < cache.kvHeads; ++h) {
        write(Lane::Key, int32_t(s), p, h, deviates(cache.headDim));
        write(Lane::Value, int32_t(s), p, h, deviates(cache.headDim));
      }
      if (spec.sparse)
        write(Lane::IndexKey, int32_t(s), p, 0, deviates(cache.indexDim));
    }
  }
}

void Scene::write(Lane lane, int32_t sequence, int64_t position, int64_t head,
                  std::span<const double> values) {
  int32_t page = batch.pageTable[size_t(sequence)][size_t(position / blockTokens)];
  image.write(lane, page, position % blockTokens, head, values);
}

static Tensor pick(const Tensor &from, const std::vector<size_t> &rows) {
  Tensor to = Tensor::ofReals({int64_t(rows.size()), from.width()});
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(from.row(int64_t(rows[i])), from.width(), to.row(int64_t(i)));
  return to;
}

void Scene::keepRows(const std::vector<size_t> &rows) {
  Batch kept;
  kept.pageTable = batch.pageTable;
  for (size_t row : rows) {
    kept.tokenIds.push_back(int32_t(kept.tokenIds.size()));
    kept.positions.push_back(batch.positions[row]);
    kept.sequenceOfRow.push_back(batch.sequenceOfRow[row]);
  }
  batch = std::move(kept);
  query = pick(query, rows);
  indexQuery = pick(indexQuery, rows);
}

double Scene::scale() const { return 1 / std::sqrt(double(spec.cache.headDim)); }

std::string Scene::module(const SceneSpec &spec) {
  CacheSpec cache = cacheOf(spec);
  bool grid = cache.storage == "nvfp4"; // whatever its keys are read as, its queries are E4M3
  auto rows = [&](int64_t width, bool e4m3) {
    return "tensor<?x" + std::to_string(width) + (spec.bf16 ? "xbf16" : "xf32") +
           (e4m3 ? ", #m3.storage<e4m3>" : "") + ">";
  };
  std::string heads = std::to_string(cache.kvHeads), k = std::to_string(spec.k);
  std::string query = rows(spec.heads * cache.headDim, grid);
  std::string index = rows(cache.kvHeads * cache.indexDim, grid || cache.storage == "fp8");
  std::string out = spec.attend ? rows(spec.heads * cache.headDim, false) : query;
  std::string scores = "tensor<?x" + heads + "x?xf32>",
              blocks = "tensor<?x" + heads + "x" + k + "xi32>";
  char scale[64];
  std::snprintf(scale, sizeof(scale), "%.17g", 1 / std::sqrt(double(cache.headDim)));
  std::string attributes = "{layer = 0, scale = " + std::string(scale) + "}";
  auto weight = [&](const char *name, int64_t width) {
    return std::string("m3.weight @") + name + " : !m3.weight<4096x" + std::to_string(width) +
           ", f32> {parts = [#m3.part<values, \"" + name + "\", \"F32\", [4096, " +
           std::to_string(width) + "]>]}\n";
  };
  std::string text = "!cache = " + cache.type() + "\n" + weight("q", spec.heads * cache.headDim) +
                     (spec.sparse ? weight("iq", cache.kvHeads * cache.indexDim) : "") +
                     "func.func @step(%batch: !m3.batch, %cache: !cache) -> " + out + " {\n" +
                     "  %q = m3.embed %batch, @q : " + query + "\n";
  if (spec.sparse)
    text += "  %iq = m3.embed %batch, @iq : " + index + "\n" +
            "  %sel = m3.fused \"index_topk\"(%b = %batch : !m3.batch, %a = %iq : " + index +
            ", %c = %cache : !cache) -> (" + blocks + ") {\n" +
            "    %s = m3.index_score %a, %c, %b {layer = 0} : " + index + ", !cache -> " + scores +
            "\n    %t = m3.block_topk %s, %b {k = " + k + ", init = " + std::to_string(spec.init) +
            ", local = 1} : " + scores + " -> " + blocks + "\n    m3.yield %t : " + blocks +
            "\n  }\n";
  if (!spec.attend)
    return text + "  return %q : " + query + "\n}\n";
  if (spec.sparse)
    text += "  %o = m3.sparse_attention %q, %cache, %sel, %batch " + attributes + " : " + query +
            ", !cache, " + blocks + " -> " + out + "\n";
  else
    text += "  %o = m3.dense_attention %q, %cache, %batch " + attributes + " : " + query +
            ", !cache -> " + out + "\n";
  return text + "  return %o : " + out + "\n}\n";
}

StepInput Scene::input() {
  StepInput input;
  input.batch = &batch;
  input.pool = image.base();
  input.poolPages = spec.farPage ? hugePage + 1 : spec.pages;
  input.pageBytes = image.bytesOfPage();
  input.weights["q"].assign(query.reals.begin(), query.reals.end());
  input.weights["iq"].assign(indexQuery.reals.begin(), indexQuery.reals.end());
  return input;
}

Tensor Scene::scores() const {
  return indexScores(indexQuery, const_cast<CacheImage &>(image).reference(), batch, 0, 1);
}
Tensor Scene::selection(const Tensor &scores) const {
  return blockTopk(scores, batch, spec.k, spec.init, 1);
}
Tensor Scene::attention(const Tensor *blocks) const {
  return interpreter::attention(query, const_cast<CacheImage &>(image).reference(), batch, 0,
                                scale(), blocks, 1);
}

KernelProgram &program(const SceneSpec &spec, const std::string &chip, int64_t rows,
                       const std::vector<std::string> &schedule) {
  static std::map<std::string, std::unique_ptr<KernelProgram>> programs;
  std::string text = Scene::module(spec), key = text + chip + std::to_string(rows);
  for (const std::string &choice : schedule)
    key += choice;
  std::unique_ptr<KernelProgram> &slot = programs[key];
  if (!slot)
    slot = std::make_unique<KernelProgram>(text, chip, rows, schedule);
  return *slot;
}

} // namespace m3c::numerics
