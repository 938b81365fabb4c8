#include "runtime/plan/StepWork.h"

#include "runtime/base/Error.h"
#include "runtime/plan/List.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace m3c {

namespace {

constexpr std::string_view layerPrefix = "layers.";

uint64_t elementsOf(const plan::WeightBuffer &buffer) {
  bool words =
      buffer.recipe() == plan::Recipe::PanelWords || buffer.recipe() == plan::Recipe::FragmentWords;
  return words ? uint64_t(buffer.panels()) * 16 * buffer.row_length() : 0;
}

/// Sums over the rows of a step, all sequences together.
struct Positions {
  double all = 0;              ///< tokens that a row sees, itself included
  double selected = 0;         ///< of the blocks that a sparse layer selects
  double distinctAll = 0;      ///< tokens that some row sees
  double distinctSelected = 0; ///< tokens of distinct selected blocks, at most
};

Positions positionsOf(const plan::Model &model, const StepShape &step) {
  Positions sums;
  double block = 128, limit = block * double(model.topk_blocks());
  for (uint32_t row = 0; row < step.rows; ++row) {
    double seen = double(step.context + row + 1);
    // All selected blocks are whole but the newest, which is always among them.
    uint64_t wholeBlocks = (step.context + row) / 128;
    double newest = seen - block * double(wholeBlocks);
    sums.all += seen;
    sums.selected += std::min(seen, limit - block + newest);
  }
  sums.distinctAll = double(step.context + step.rows);
  sums.distinctSelected = std::min(sums.distinctAll, sums.selected);
  for (double *sum : {&sums.all, &sums.selected, &sums.distinctAll, &sums.distinctSelected})
    *sum *= step.requests;
  return sums;
}

Work attentionWork(const plan::Tables &tables, bool sparse, const StepShape &step) {
  const plan::Model &model = *tables.model();
  Positions positions = positionsOf(model, step);
  double slots = 2.0 * model.kv_heads() * double(tables.cache()->slot_bytes()) / 128;
  return {slots * (sparse ? positions.distinctSelected : positions.distinctAll),
          4.0 * model.heads() * model.head_dim() * (sparse ? positions.selected : positions.all)};
}

/// One index head for each KV head, one index key for each token, as wide as a head.
Work scoreWork(const plan::Tables &tables, const StepShape &step) {
  const plan::Model &model = *tables.model();
  Positions positions = positionsOf(model, step);
  return {positions.distinctAll * double(tables.cache()->slot_bytes()) / 128,
          2.0 * model.kv_heads() * model.head_dim() * positions.all};
}

Work weightWork(const plan::Tables &tables, const plan::WeightBuffer &buffer, int layer,
                const StepShape &step) {
  const plan::Model &model = *tables.model();
  std::string_view symbol = buffer.symbol()->string_view();
  double bytes = double(buffer.bytes()), elements = double(elementsOf(buffer));
  double rows = double(step.allRows());
  if (symbol.find(".experts.") != symbol.npos && model.experts()) {
    double pairs = rows * model.experts_per_token();
    double distinct = std::min<double>(model.experts(), pairs);
    if (layer >= 0 && size_t(layer) < step.distinctExperts.size())
      distinct = step.distinctExperts[size_t(layer)];
    return {bytes * distinct / model.experts(), 2 * elements / model.experts() * pairs};
  }
  if (buffer.recipe() == plan::Recipe::Raw && symbol.find("embed") != symbol.npos)
    return {bytes / model.vocab() * rows, 0};
  if (symbol.find("lm_head") != symbol.npos)
    rows = double(step.logitRows) * step.requests;
  return {bytes, 2 * elements * rows};
}

} // namespace

StepShape parseShape(const std::string &text) {
  StepShape shape;
  const char *at = text.data(), *end = at + text.size();
  auto number = [&](auto &value, char after) {
    auto [stopped, code] = std::from_chars(at, end, value);
    bool fine =
        code == std::errc() && (after ? stopped != end && *stopped == after : stopped == end);
    at = fine && after ? stopped + 1 : stopped;
    return fine;
  };
  if (!number(shape.requests, 'x') || !number(shape.rows, '@') || !number(shape.context, 0) ||
      shape.requests == 0 || shape.rows == 0 || shape.context == 0)
    throw Error(fmt::format("'{}' is no shape of a step", text), "--shape",
                "sequences, tokens of each in the step and tokens before it are needed",
                "write for instance 128x1@8192", ExitCode::Usage);
  shape.logitRows = 1;
  return shape;
}

std::string shapeName(const StepShape &shape) {
  return shape.requests == 1 ? fmt::format("{}+{}", shape.context, shape.rows)
                             : fmt::format("{}+{}x{}", shape.context, shape.requests, shape.rows);
}

int layerOfLabel(std::string_view label) {
  int layer = -1;
  if (label.starts_with(layerPrefix))
    std::from_chars(label.data() + layerPrefix.size(), label.data() + label.size(), layer);
  return layer;
}

std::string kindOfLabel(std::string_view label) {
  if (layerOfLabel(label) < 0)
    return std::string(label);
  return std::string(label.substr(label.find('.', layerPrefix.size()) + 1));
}

static bool isSparse(const plan::Tables &tables, int layer) {
  auto sparse = plan::list(tables.model()->sparse_layers());
  return layer >= 0 && size_t(layer) < sparse.size() && sparse[size_t(layer)];
}

std::string kindOf(const plan::Tables &tables, const plan::Launch &launch) {
  std::string_view label = launch.label() ? launch.label()->string_view() : "";
  std::string kind = kindOfLabel(label);
  bool attends = kind.find("attention") != kind.npos;
  return attends && !isSparse(tables, layerOfLabel(label)) ? "dense_" + kind : kind;
}

Work launchWork(const plan::Tables &tables, const plan::Launch &launch, const StepShape &step) {
  Work work;
  const plan::Kernel &kernel = *tables.kernels()->Get(launch.kernel());
  std::string_view label = launch.label() ? launch.label()->string_view() : "";
  int layer = layerOfLabel(label);
  for (const plan::Arg *arg : plan::list(launch.args()))
    if (arg->kind() == plan::ArgKind::Weight)
      work += weightWork(tables, *tables.weights()->Get(arg->index()), layer, step);
  std::string_view family = kernel.family() ? kernel.family()->string_view() : "";
  if (family == "index_score")
    work += scoreWork(tables, step);
  if (family == "attention")
    work += attentionWork(tables, isSparse(tables, layer), step);
  return work;
}

/// What a launch touches of one argument, whichever way.
static double touchedBytes(const plan::Tables &tables, const plan::Bucket &bucket,
                           const plan::Arg &arg, const StepShape &step) {
  double rows = double(std::min<uint64_t>(step.allRows(), bucket.rows()));
  if (arg.kind() == plan::ArgKind::CachePool) // its rows are written; what is read is work
    return arg.access() == plan::Access::Read
               ? 0
               : double(arg.fixed_bytes()) / tables.cache()->page_tokens() * rows;
  if (arg.kind() != plan::ArgKind::Arena)
    return 0;
  if (arg.row_bytes() == 0 && arg.block_bytes() == 0)
    return double(arg.fixed_bytes());
  uint64_t page = tables.cache()->page_tokens();
  double blocks = double((step.context + step.rows + page - 1) / page);
  // Of a block there are bytes for each row of the bucket.
  return double(arg.row_bytes()) * rows +
         double(arg.block_bytes()) * blocks * rows / double(bucket.rows());
}

Traffic launchTraffic(const plan::Tables &tables, const plan::Bucket &bucket,
                      const plan::Launch &launch, const StepShape &step) {
  Traffic traffic;
  for (const plan::Arg *arg : plan::list(launch.args())) {
    double bytes = touchedBytes(tables, bucket, *arg, step);
    bool isCache = arg->kind() == plan::ArgKind::CachePool;
    if (uint8_t(arg->access()) & uint8_t(plan::Access::Read) && !isCache)
      traffic.read += bytes;
    if (uint8_t(arg->access()) & uint8_t(plan::Access::Write))
      traffic.written += bytes;
  }
  return traffic;
}

const plan::Bucket *bucketFor(const plan::Target &target, const StepShape &step) {
  const plan::Bucket *best = nullptr;
  for (const plan::Bucket *bucket : plan::list(target.buckets()))
    if (bucket->rows() >= step.allRows() &&
        bucket->logit_rows() >= uint64_t(step.logitRows) * step.requests &&
        (!best || bucket->rows() < best->rows()))
      best = bucket;
  return best;
}

Work stepWork(const plan::Tables &tables, const plan::Target &target, const StepShape &step) {
  Work work;
  if (const plan::Bucket *bucket = bucketFor(target, step))
    for (const plan::Launch *launch : plan::list(bucket->launches()))
      work += launchWork(tables, *launch, step);
  return work;
}

} // namespace m3c
