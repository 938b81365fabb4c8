// The tables of a plan file as JSON.
#include "compiler/report/PlanReport.h"

#include "runtime/base/Error.h"
#include "runtime/plan/Checksum.h"
#include "runtime/plan/Objects.h"

#include <fmt/format.h>

namespace m3c {

using nlohmann::ordered_json;

namespace {

std::string textOf(const flatbuffers::String *text) { return text ? text->str() : ""; }

template <typename T> ordered_json numbers(const flatbuffers::Vector<T> *values) {
  ordered_json out = ordered_json::array();
  for (auto value : plan::list(values))
    out.push_back(value);
  return out;
}

ordered_json modelJson(const plan::Model &model) {
  return {{"model_type", textOf(model.model_type())},
          {"layers", model.layers()},
          {"hidden", model.hidden()},
          {"heads", model.heads()},
          {"kv_heads", model.kv_heads()},
          {"head_dim", model.head_dim()},
          {"vocab", model.vocab()},
          {"max_positions", model.max_positions()},
          {"bos_token", model.bos_token()},
          {"eos_token", model.eos_token()},
          {"pad_token", model.pad_token()},
          {"topk_blocks", model.topk_blocks()},
          {"experts", model.experts()},
          {"experts_per_token", model.experts_per_token()},
          {"sparse_layers", numbers(model.sparse_layers())},
          {"moe_layers", numbers(model.moe_layers())}};
}

ordered_json cacheJson(const plan::Cache &cache) {
  ordered_json out = {{"type", plan::spelled(plan::EnumNameCacheType(cache.type()))},
                      {"grid", plan::spelled(plan::EnumNameCacheGrid(cache.grid()))},
                      {"page_tokens", cache.page_tokens()},
                      {"page_bytes", cache.page_bytes()},
                      {"slot_bytes", cache.slot_bytes()},
                      {"layers", ordered_json::array()}};
  for (const plan::CacheLayer *layer : plan::list(cache.layers()))
    out["layers"].push_back({{"kv", layer->kv_offset()}, {"index", layer->index_offset()}});
  return out;
}

ordered_json weightJson(const plan::WeightBuffer &weight) {
  ordered_json out = {{"symbol", textOf(weight.symbol())},
                      {"recipe", plan::EnumNameRecipe(weight.recipe())},
                      {"bits", weight.bits()},
                      {"bytes", weight.bytes()},
                      {"row_length", weight.row_length()},
                      {"panels", weight.panels()},
                      {"abreast", weight.abreast()},
                      {"pieces", ordered_json::array()}};
  for (const plan::WeightPiece *piece : plan::list(weight.pieces()))
    out["pieces"].push_back({{"tensor", textOf(piece->tensor())},
                             {"dtype", textOf(piece->dtype())},
                             {"shape", numbers(piece->shape())},
                             {"first_panel", piece->first_panel()},
                             {"panel_step", piece->panel_step()},
                             {"dest_offset", piece->dest_offset()}});
  return out;
}

std::string digestOf(const plan::PlanFile &file, uint32_t section) {
  return plan::loadDigest(file.section(section).digest).hex();
}

ordered_json kernelJson(const plan::PlanFile &file, const plan::Kernel &kernel) {
  ordered_json out = {{"name", textOf(kernel.name())},
                      {"family", textOf(kernel.family())},
                      {"params", kernel.params()},
                      {"schedule", textOf(kernel.schedule())},
                      {"objects", ordered_json::array()}};
  for (const plan::CodeObject *object : plan::list(kernel.objects())) {
    ordered_json elements = ordered_json::array();
    for (plan::Element element : plan::list(object->elements()))
      elements.push_back(plan::EnumNameElement(element));
    out["objects"].push_back({{"chip", textOf(object->chip())},
                              {"symbol", textOf(object->symbol())},
                              {"shared_bytes", object->shared_bytes()},
                              {"threads", object->threads()},
                              {"cluster", object->cluster()},
                              {"overlaps", object->overlaps()},
                              {"registers", object->registers()},
                              {"spill_bytes", object->spill_bytes()},
                              {"elements", elements},
                              {"bytes", file.section(object->section()).size},
                              {"digest", digestOf(file, object->section())}});
  }
  if (kernel.source_section() >= 0)
    out["source_digest"] = digestOf(file, uint32_t(kernel.source_section()));
  return out;
}

std::string argumentText(const plan::Tables &tables, const plan::Arg &arg) {
  switch (arg.kind()) {
  case plan::ArgKind::Arena:
    return arg.blocks_scale() ? fmt::format("arena+{}+blocks*{}", arg.offset(), arg.blocks_scale())
                              : fmt::format("arena+{}", arg.offset());
  case plan::ArgKind::Weight:
    return fmt::format("{}+{}", textOf(tables.weights()->Get(arg.index())->symbol()), arg.offset());
  case plan::ArgKind::CachePool:
    return fmt::format("pool+{}", arg.offset());
  case plan::ArgKind::Batch:
    return fmt::format("batch.{}", plan::EnumNameBatchArray(plan::BatchArray(arg.index())));
  case plan::ArgKind::Scalar:
    return std::to_string(arg.value());
  }
  return "?";
}

std::string gridText(const plan::GridDim &dim) {
  return dim.blocks_per_item() ? fmt::format("blocks/{}", dim.blocks_per_item())
                               : std::to_string(dim.count());
}

ordered_json launchJson(const plan::Tables &tables, const plan::Launch &launch) {
  ordered_json out = {
      {"label", textOf(launch.label())},
      {"kernel", textOf(tables.kernels()->Get(launch.kernel())->name())},
      {"grid",
       {gridText(*launch.grid_x()), gridText(*launch.grid_y()), gridText(*launch.grid_z())}},
      {"args", ordered_json::array()},
      {"access", ordered_json::array()},
      {"bytes", ordered_json::array()}};
  for (const plan::Arg *arg : plan::list(launch.args())) {
    out["args"].push_back(argumentText(tables, *arg));
    out["access"].push_back(plan::EnumNameAccess(arg->access()));
    out["bytes"].push_back(
        {{"row", arg->row_bytes()}, {"block", arg->block_bytes()}, {"fixed", arg->fixed_bytes()}});
  }
  return out;
}

ordered_json bucketJson(const plan::Tables &tables, const plan::Bucket &bucket) {
  ordered_json out = {{"rows", bucket.rows()},
                      {"logit_rows", bucket.logit_rows()},
                      {"arena_bytes", bucket.arena_bytes()},
                      {"arena_bytes_per_block", bucket.arena_bytes_per_block()},
                      {"logits_offset", bucket.logits_offset()},
                      {"launches", ordered_json::array()},
                      {"taps", ordered_json::array()}};
  for (const plan::Launch *launch : plan::list(bucket.launches()))
    out["launches"].push_back(launchJson(tables, *launch));
  for (const plan::Tap *tap : plan::list(bucket.taps()))
    out["taps"].push_back({{"kind", plan::EnumNameTapKind(tap->kind())},
                           {"layer", tap->layer()},
                           {"after_launch", tap->after_launch()},
                           {"offset", tap->offset()},
                           {"row_bytes", tap->row_bytes()}});
  return out;
}

} // namespace

ordered_json manifestOf(const plan::PlanFile &file) {
  ordered_json manifest = ordered_json::parse(file.manifest(), nullptr, false);
  if (!manifest.is_object())
    throw Error(file.name() + " has a manifest that is no JSON object", file.name(), "",
                "make the plan again with `m3c compile`");
  return manifest;
}

ordered_json tablesJson(const plan::PlanFile &file) {
  const plan::Tables &tables = file.tables();
  ordered_json out = {{"model", modelJson(*tables.model())}, {"cache", cacheJson(*tables.cache())}};
  for (const char *key : {"targets", "kernels", "buckets", "weights", "extras"})
    out[key] = ordered_json::array();
  for (const plan::Target *target : plan::list(tables.targets())) {
    uint64_t launches = 0, ofFallback = 0;
    for (const plan::Bucket *bucket : plan::list(target->buckets()))
      for (const plan::Launch *launch : plan::list(bucket->launches())) {
        ++launches;
        ofFallback += plan::isIncomplete(*target) &&
                      !plan::objectFor(*tables.kernels()->Get(launch->kernel()),
                                       target->chip()->string_view());
      }
    ordered_json features = ordered_json::array();
    for (const flatbuffers::String *feature : plan::list(target->required_features()))
      features.push_back(feature->str());
    for (const plan::Bucket *bucket : plan::list(target->buckets())) {
      ordered_json entry = {{"chip", textOf(target->chip())}};
      entry.update(bucketJson(tables, *bucket));
      out["buckets"].push_back(std::move(entry));
    }
    ordered_json sourceFeatures = ordered_json::array();
    for (const flatbuffers::String *feature : plan::list(target->source_features()))
      sourceFeatures.push_back(feature->str());
    out["targets"].push_back({{"name", textOf(target->name())},
                              {"chip", textOf(target->chip())},
                              {"required_features", features},
                              {"source_features", sourceFeatures},
                              {"proof", textOf(target->proof())},
                              {"fallback_chip", textOf(target->fallback_chip())},
                              {"launches", launches},
                              {"launches_of_fallback", ofFallback}});
  }
  for (const plan::Kernel *kernel : plan::list(tables.kernels()))
    out["kernels"].push_back(kernelJson(file, *kernel));
  for (const plan::WeightBuffer *weight : plan::list(tables.weights()))
    out["weights"].push_back(weightJson(*weight));
  for (const plan::NamedSection *extra : plan::list(tables.extras()))
    out["extras"].push_back(
        {{"name", textOf(extra->name())}, {"digest", digestOf(file, extra->section())}});
  return out;
}

} // namespace m3c
