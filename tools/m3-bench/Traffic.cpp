#include "tools/m3-bench/Traffic.h"

#include "runtime/plan/List.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace m3c::bench {

namespace {

bool holds(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// One matrix for each expert: its pieces come from the experts' tensors.
bool isExperts(const plan::WeightBuffer &buffer, const plan::Model &model) {
  auto pieces = plan::list(buffer.pieces());
  return model.experts() > 0 && pieces.size() >= model.experts() &&
         holds(pieces[0]->tensor()->string_view(), ".experts.");
}

double elements(const plan::WeightBuffer &buffer) {
  bool matrix = buffer.recipe() == plan::Recipe::PanelWords;
  return matrix ? 16.0 * buffer.panels() * double(buffer.row_length()) : 0;
}

/// Layer number of a label "layers.N.…", or -1.
int layerOf(std::string_view label) {
  size_t at = label.find("layers.");
  int layer = -1;
  if (at != label.npos)
    std::from_chars(label.data() + at + 7, label.data() + label.size(), layer);
  return layer;
}

/// Rows that go through the launch's matrices.
double rowsOf(const plan::Launch &launch, const StepPlan &step) {
  for (const plan::Arg *arg : plan::list(launch.args()))
    if (arg->kind() == plan::ArgKind::Batch &&
        arg->index() == uint32_t(plan::BatchArray::LogitRows))
      return step.logitRows;
  bool head = launch.label() && holds(launch.label()->string_view(), "head") &&
              layerOf(launch.label()->string_view()) < 0;
  return head ? step.logitRows : step.rows;
}

void addWeights(const plan::Tables &tables, const plan::Launch &launch, const StepPlan &step,
                bool gathers, Traffic &traffic) {
  const plan::Model &model = *tables.model();
  double rows = rowsOf(launch, step);
  for (const plan::Arg *arg : plan::list(launch.args())) {
    if (arg->kind() != plan::ArgKind::Weight)
      continue;
    const plan::WeightBuffer &buffer = *tables.weights()->Get(arg->index());
    if (gathers) { // one row of the table for each token
      traffic.bytes += rows * double(buffer.bytes()) / model.vocab();
    } else if (isExperts(buffer, model)) {
      double share = double(model.experts_per_token()) / model.experts();
      traffic.bytes += double(buffer.bytes()) * (1 - std::pow(1 - share, rows));
      traffic.flops += 2 * rows * share * elements(buffer);
    } else {
      traffic.bytes += double(buffer.bytes());
      traffic.flops += 2 * rows * elements(buffer);
    }
  }
}

void addCache(const plan::Tables &tables, std::string_view family, int layer, const StepPlan &step,
              uint64_t context, Traffic &traffic) {
  const plan::Model &model = *tables.model();
  const plan::Cache &cache = *tables.cache();
  double pages = std::ceil(double(context) / cache.page_tokens());
  // Rows before the last one see less: on average half of the step less.
  double seen = std::max(1.0, double(context) - (step.rows - 1) / 2.0);
  bool sparse =
      layer >= 0 && uint32_t(layer) < model.layers() && model.sparse_layers()->Get(uint32_t(layer));
  if (holds(family, "index")) {
    traffic.bytes += pages * double(cache.slot_bytes());
    traffic.flops += 2.0 * step.rows * model.kv_heads() * seen * model.head_dim();
  } else if (holds(family, "attention")) {
    double kept = double(model.topk_blocks()) * cache.page_tokens();
    double tokens = sparse ? std::min(seen, kept) : seen;
    // Rows of a step choose different blocks: together they read at most all.
    double read = sparse ? std::min(pages, step.rows * double(model.topk_blocks())) : pages;
    traffic.bytes += read * 2 * model.kv_heads() * double(cache.slot_bytes());
    traffic.flops += 4.0 * step.rows * model.heads() * tokens * model.head_dim();
  }
}

} // namespace

Traffic trafficOf(const plan::Tables &tables, const plan::Launch &launch, const StepPlan &step,
                  uint64_t context) {
  const plan::Kernel &kernel = *tables.kernels()->Get(launch.kernel());
  std::string_view family = kernel.family() ? kernel.family()->string_view() : std::string_view();
  std::string_view label = launch.label() ? launch.label()->string_view() : std::string_view();
  Traffic traffic;
  addWeights(tables, launch, step, family == "embed", traffic);
  addCache(tables, family, layerOf(label), step, context, traffic);
  return traffic;
}

Traffic trafficOfStep(const plan::Tables &tables, const StepPlan &step, uint64_t context) {
  Traffic sum;
  for (const plan::Launch *launch : plan::list(tables.buckets()->Get(step.bucket)->launches())) {
    Traffic one = trafficOf(tables, *launch, step, context);
    sum.bytes += one.bytes;
    sum.flops += one.flops;
  }
  return sum;
}

double arithmeticLimit(const hal::DeviceLimits &limits, const plan::Target &target) {
  double flops = 0;
  for (const hal::DeviceLimits::Arithmetic &entry : limits.arithmetic)
    for (const flatbuffers::String *feature : plan::list(target.required_features()))
      if (feature->string_view() == entry.feature)
        flops = std::max(flops, entry.flopsPerSecond);
  if (flops == 0 && !limits.arithmetic.empty())
    flops = limits.arithmetic.front().flopsPerSecond;
  return flops;
}

double bestTime(const Traffic &traffic, const hal::DeviceLimits &limits,
                const plan::Target &target) {
  double flops = arithmeticLimit(limits, target);
  return std::max(limits.readBytesPerSecond > 0 ? traffic.bytes / limits.readBytesPerSecond : 0,
                  flops > 0 ? traffic.flops / flops : 0);
}

} // namespace m3c::bench
