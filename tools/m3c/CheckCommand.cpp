// `m3c check CKPT`: reads a checkpoint whole, headers and values, and says what it found.
#include "compiler/import/Import.h"
#include "runtime/base/Log.h"
#include "runtime/base/Progress.h"
#include "runtime/checkpoint/ValueCheck.h"
#include "tools/common/Numbers.h"
#include "tools/m3c/Commands.h"

#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace m3c {
namespace {

struct CheckOptions {
  std::string folder;
  std::string progress = "auto";
  bool strict = false;
  bool json = false;
};

struct Total {
  int64_t count = 0;
  uint64_t bytes = 0;
};

std::map<std::string, Total> byEncoding(const ImportedModel &model) {
  std::map<std::string, Total> totals;
  for (const Weight &weight : model.weights) {
    Total &total = totals[std::string(encodingName(weight.encoding))];
    ++total.count;
    for (const WeightPart &part : weight.parts)
      total.bytes += *tensorBytes(*parseDtype(part.dtype), part.shape);
  }
  return totals;
}

int64_t countTrue(const std::vector<bool> &flags) {
  return std::count(flags.begin(), flags.end(), true);
}

void printGeneration(const text::TextConfig &generation) {
  if (generation.temperature || generation.topK || generation.topP)
    fmt::print("  sampling       temperature {}, top-k {}, top-p {}\n",
               generation.temperature.value_or(1), generation.topK.value_or(0),
               generation.topP.value_or(1));
  for (const std::string &note : generation.notes)
    fmt::print("  note           {}\n", note);
}

void printText(const ImportedModel &model) {
  const ModelConfig &config = model.config;
  fmt::print("{}: {}, sound\n", model.folder, config.modelType);
  fmt::print("  layers         {} ({} sparse attention, {} with experts)\n", config.layers,
             countTrue(config.sparseLayer), countTrue(config.moeLayer));
  fmt::print("  width          {}, {} query heads, {} KV heads of {}\n", config.hidden,
             config.heads, config.kvHeads, config.headDim);
  if (config.anyMoe())
    fmt::print("  experts        {} of {}, {} a token, {} shared\n", config.experts,
               config.expertIntermediate, config.expertsPerToken, config.sharedExperts);
  if (config.anySparse())
    fmt::print("  blocks         {} of {} tokens, {} first ones always kept\n", config.topkBlocks,
               config.blockSize, config.initBlocks);
  fmt::print("  vocabulary     {}, context {}\n", config.vocab, config.maxPositions);
  for (const auto &[encoding, total] : byEncoding(model))
    fmt::print("  {:<14} {} weights, {}\n",
               encoding == "nvfp4-pack-quantized" ? "nvfp4 packed" : encoding, total.count,
               byteText(total.bytes));
  for (const auto &[group, left] : model.findings.leftOut)
    fmt::print("  left out       {}: {} tensors, {}\n", group, left.tensors, byteText(left.bytes));
  fmt::print("  files          {} shards{}\n", model.digests.shards.size(),
             model.checkpoint->hasTensors() ? "" : ": config.json alone, weights are synthetic");
  for (const std::string &note : model.findings.notes)
    fmt::print("  note           {}\n", note);
  if (model.generation)
    printGeneration(*model.generation);
}

template <typename T> nlohmann::ordered_json orNull(const std::optional<T> &value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json generationJson(const text::TextConfig &generation) {
  return {{"bos_id", orNull(generation.bosId)},
          {"eos_ids", generation.eosIds},
          {"temperature", orNull(generation.temperature)},
          {"top_k", orNull(generation.topK)},
          {"top_p", orNull(generation.topP)},
          {"notes", generation.notes}};
}

void printJson(const ImportedModel &model) {
  using nlohmann::ordered_json;
  const ModelConfig &config = model.config;
  ordered_json out = {{"folder", model.folder}, {"ok", true}, {"model_type", config.modelType}};
  out["layers"] = config.layers;
  out["sparse_layers"] = countTrue(config.sparseLayer);
  out["moe_layers"] = countTrue(config.moeLayer);
  out["synthetic"] = !model.checkpoint->hasTensors();
  out["encodings"] = ordered_json::object();
  for (const auto &[encoding, total] : byEncoding(model))
    out["encodings"][encoding] = {{"weights", total.count}, {"bytes", total.bytes}};
  out["left_out"] = ordered_json::object();
  for (const auto &[group, left] : model.findings.leftOut)
    out["left_out"][group] = {{"tensors", left.tensors}, {"bytes", left.bytes}};
  out["unknown_keys"] = model.findings.unknownKeys;
  out["unknown_tensors"] = model.findings.unknownTensors;
  out["warnings"] = model.findings.warnings;
  out["notes"] = model.findings.notes;
  out["generation"] = model.generation ? generationJson(*model.generation) : ordered_json();
  out["digests"] = {{"config", model.digests.config},
                    {"index", model.digests.index},
                    {"tokenizer", model.digests.tokenizer},
                    {"all", model.digests.all()}};
  out["shards"] = ordered_json::array();
  for (const CheckpointDigests::Shard &shard : model.digests.shards)
    out["shards"].push_back(
        {{"name", shard.name}, {"bytes", shard.bytes}, {"header", shard.header}});
  fmt::print("{}\n", out.dump(1));
}

int runCheck(const CheckOptions &options) {
  Progress progress(*parseProgressMode(options.progress));
  progress.stage("reading headers");
  ImportedModel model = importModel(options.folder, {.strict = options.strict});
  progress.finish();
  for (const std::string &warning : model.findings.warnings)
    log::warning("{}", warning);
  if (model.checkpoint->hasTensors()) {
    bool begun = false;
    checkAllValues(*model.checkpoint, [&](uint64_t done, uint64_t total, const std::string &shard) {
      if (!std::exchange(begun, true))
        progress.stage("reading values", total);
      progress.update(done, shard);
    });
    progress.finish();
  }
  options.json ? printJson(model) : printText(model);
  return 0;
}

} // namespace

std::function<int()> setUpCheck(CLI::App &app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_option("CKPT", options->folder, "model folder (config.json, index, shards)")->required();
  app.add_flag("--strict", options->strict, "refuse unknown keys and tensors");
  app.add_flag("--json", options->json, "print JSON");
  app.add_option("--progress", options->progress, "auto, plain, json or none")
      ->check(oneOf({"auto", "plain", "json", "none"}));
  return [options] { return runCheck(*options); };
}

} // namespace m3c
