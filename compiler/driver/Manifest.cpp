#include "compiler/driver/Manifest.h"

#include "dialects/m3/M3.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace m3c {

using nlohmann::ordered_json;

const char *versionText() { return M3C_VERSION; }

ordered_json decision(const std::string &what, const std::string &choice, const std::string &why) {
  return {{"what", what}, {"choice", choice}, {"why", why}};
}

static CacheChoice defaultCache(const ImportedModel &model) {
  bool allSparse = std::ranges::all_of(model.config.sparseLayer, [](bool is) { return is; });
  bool packed = std::ranges::any_of(model.weights, [](const Weight &weight) {
    return weight.encoding == WeightEncoding::Nvfp4Packed;
  });
  if (packed && allSparse)
    return {"nvfp4", "",
            "by default: the experts are nvfp4-pack-quantized and every layer is sparse"};
  return {"fp8", "",
          packed ? "by default: not every layer is sparse"
                 : "by default: the experts are not nvfp4-pack-quantized"};
}

CacheChoice chooseCache(const CompileOptions &options, const ImportedModel &model) {
  CacheChoice choice = defaultCache(model);
  if (!options.cache.empty())
    choice = {options.cache, "", "as asked for by --kv"};
  if (!std::ranges::count(std::initializer_list<std::string>{"f32", "bf16", "fp8", "nvfp4"},
                          choice.type))
    throw Error(fmt::format("unknown cache type '{}'", choice.type), "--kv", "",
                "choose one of f32, bf16, fp8, nvfp4", ExitCode::Usage);
  choice.grid = !options.grid.empty() ? options.grid : choice.type == "nvfp4" ? "e4m3" : "exact";
  if (choice.grid != "exact" && (choice.grid != "e4m3" || choice.type != "nvfp4"))
    throw Error(fmt::format("a cache of type {} has no grid '{}'", choice.type, choice.grid),
                "--kv-grid", "", "use e4m3 or exact with nvfp4, exact with the others",
                ExitCode::Usage);
  return choice;
}

ordered_json weightDecisions(mlir::ModuleOp graph) {
  struct Group {
    int64_t count = 0;
    std::string first, choice, why;
  };
  std::map<std::string, Group> groups;
  for (auto weight : graph.getOps<m3::WeightOp>()) {
    std::string format = m3::stringifyEncoding(weight.weightType().getEncoding()).str();
    m3::DemotionAttr demotion = weight.getDemotionAttr();
    Group &group = groups[format + (demotion ? " demoted" : "")];
    if (group.count++ == 0)
      group.first = weight.getSymName().str();
    group.choice = demotion ? "read as " + demotion.getTo().str() : "read as stored";
    group.why = demotion ? demotion.getReason().str() : "kernels of the target read " + format;
  }
  ordered_json out = ordered_json::array();
  for (const auto &[format, group] : groups)
    out.push_back(decision(
        "weights in " + format.substr(0, format.find(' ')),
        fmt::format("{}, {} of them: {} …", group.choice, group.count, group.first), group.why));
  return out;
}

static ordered_json checkpointJson(const ImportedModel &model) {
  const CheckpointDigests &digests = model.digests;
  ordered_json out = {{"model_type", model.config.modelType},
                      {"config", digests.config},
                      {"index", digests.index},
                      {"all", digests.all()},
                      {"synthetic", !model.checkpoint->hasTensors()},
                      {"shards", ordered_json::array()}};
  for (const CheckpointDigests::Shard &shard : digests.shards)
    out["shards"].push_back(
        {{"name", shard.name}, {"header", shard.header}, {"bytes", shard.bytes}});
  return out;
}

static ordered_json findingsJson(const Findings &findings) {
  ordered_json left = ordered_json::object();
  for (const auto &[group, total] : findings.leftOut)
    left[group] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  return {{"warnings", findings.warnings},
          {"notes", findings.notes},
          {"unknown_keys", findings.unknownKeys},
          {"unknown_tensors", findings.unknownTensors},
          {"left_out", left}};
}

std::string manifestText(const CompileOptions &options, const ImportedModel &model,
                         const CacheChoice &cache, const std::vector<ChipTarget> &chips,
                         const ordered_json &decisions) {
  ordered_json targets = ordered_json::array();
  for (const auto &[target, chip] : chips) {
    Inspector inspector = target->inspector();
    targets.push_back(
        {{"target", target->name().str()},
         {"chip", chip.name},
         {"toolchain", target->toolchain(chip)},
         {"inspector", inspector.name.empty() ? "none: " + inspector.absence : inspector.name},
         {"proof", target->proof().str()}});
  }
  ordered_json manifest = {
      {"m3c", versionText()},
      {"semantics",
       {{"kv", cache.type}, {"kv_grid", cache.grid}, {"activations", options.activations}}},
      {"part", {{"shard", options.shard}, {"layers", options.layers}}},
      {"buckets", options.buckets},
      {"schedule", options.schedule},
      {"disabled_passes", options.disabledPasses},
      {"targets", targets},
      {"checkpoint", checkpointJson(model)},
      {"findings", findingsJson(model.findings)},
      {"decisions", decisions}};
  return manifest.dump(1) + "\n";
}

} // namespace m3c
