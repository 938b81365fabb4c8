#include "models/minimax_m3/WeightMap.h"

#include "models/minimax_m3/NearestName.h"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {
namespace {

using Shape = std::vector<int64_t>;

constexpr int64_t mxfp8Group = 32;
constexpr int64_t nvfp4Group = 16;

/// "a, b, …": the first names of a long list.
std::string listText(const std::vector<std::string> &names) {
  auto last = names.begin() + std::min<ptrdiff_t>(8, std::ssize(names));
  return fmt::format("{}{}", fmt::join(names.begin(), last, ", "),
                     last == names.end() ? "" : ", …");
}

class Mapper {
public:
  Mapper(const ModelConfig &config, const Checkpoint *checkpoint, Findings &findings)
      : config(config), checkpoint(checkpoint), findings(findings) {
    bool bare = checkpoint && checkpoint->find("model.embed_tokens.weight");
    prefix = bare ? "" : "language_model.";
  }

  std::vector<Weight> run();

private:
  void layer(int64_t index);
  void attention(const std::string &symbol, const std::string &name, bool sparse);
  void mlp(const std::string &symbol, const std::string &name, int64_t intermediate);
  void experts(const std::string &symbol, const std::string &name);

  void plain(std::string symbol, std::string name, Shape shape, WeightEncoding encoding);
  void matrix(std::string symbol, const std::string &name, int64_t rows, int64_t columns,
              WeightEncoding promised);
  WeightEncoding stored(const std::string &name) const;
  void checkColumns(const std::string &symbol, WeightEncoding encoding, int64_t columns) const;
  void mxfp8Parts(Weight &weight, const std::string &name);
  void modeloptParts(Weight &weight, const std::string &name);
  void packedParts(Weight &weight, const std::string &name);
  void scalar(Weight &weight, WeightPart::Role role, const std::string &name, bool needed);
  void part(Weight &weight, WeightPart::Role role, std::string name, const char *dtype,
            Shape shape);
  void compare(const WeightPart &part, const Checkpoint::Tensor &tensor) const;

  bool has(const std::string &name) const { return checkpoint && checkpoint->find(name); }
  void remember(const std::string &symbol, WeightEncoding promised, WeightEncoding found);
  void reportMissing() const;
  std::vector<std::string_view> unusedNames() const;
  void reportDisagreements();
  void sortRest();

  const ModelConfig &config;
  const Checkpoint *checkpoint;
  Findings &findings;
  std::string prefix;
  std::vector<Weight> weights;
  std::set<std::string_view> used;
  std::vector<std::string> missing;
  /// (promised, found) -> count and first symbol.
  std::map<std::pair<WeightEncoding, WeightEncoding>, std::pair<int64_t, std::string>> differing;
};

std::vector<Weight> Mapper::run() {
  plain("embed", prefix + "model.embed_tokens.weight", {config.vocab, config.hidden},
        WeightEncoding::Bf16);
  for (int64_t i = 0; i < config.layers; ++i)
    layer(i);
  plain("norm", prefix + "model.norm.weight", {config.hidden}, WeightEncoding::Bf16);
  plain("lm_head", prefix + "lm_head.weight", {config.vocab, config.hidden}, WeightEncoding::Bf16);
  reportMissing();
  reportDisagreements();
  sortRest();
  return std::move(weights);
}

void Mapper::layer(int64_t index) {
  std::string symbol = fmt::format("layers.{}.", index);
  std::string name = fmt::format("{}model.layers.{}.", prefix, index);
  plain(symbol + "input_norm", name + "input_layernorm.weight", {config.hidden},
        WeightEncoding::Bf16);
  attention(symbol, name + "self_attn.", config.sparseLayer[size_t(index)]);
  plain(symbol + "post_norm", name + "post_attention_layernorm.weight", {config.hidden},
        WeightEncoding::Bf16);
  if (config.moeLayer[size_t(index)])
    experts(symbol, name + "block_sparse_moe.");
  else
    mlp(symbol + "mlp.", name + "mlp.", config.denseIntermediate);
}

void Mapper::attention(const std::string &symbol, const std::string &name, bool sparse) {
  int64_t queries = config.heads * config.headDim, keys = config.kvHeads * config.headDim;
  WeightEncoding promised = config.projectionEncoding;
  matrix(symbol + "q_proj", name + "q_proj", queries, config.hidden, promised);
  matrix(symbol + "k_proj", name + "k_proj", keys, config.hidden, promised);
  matrix(symbol + "v_proj", name + "v_proj", keys, config.hidden, promised);
  matrix(symbol + "o_proj", name + "o_proj", config.hidden, queries, promised);
  plain(symbol + "q_norm", name + "q_norm.weight", {config.headDim}, WeightEncoding::Bf16);
  plain(symbol + "k_norm", name + "k_norm.weight", {config.headDim}, WeightEncoding::Bf16);
  if (!sparse)
    return;
  matrix(symbol + "index_q_proj", name + "index_q_proj", config.indexHeads * config.indexDim,
         config.hidden, promised);
  matrix(symbol + "index_k_proj", name + "index_k_proj", config.indexDim, config.hidden, promised);
  plain(symbol + "index_q_norm", name + "index_q_norm.weight", {config.indexDim},
        WeightEncoding::Bf16);
  plain(symbol + "index_k_norm", name + "index_k_norm.weight", {config.indexDim},
        WeightEncoding::Bf16);
}

void Mapper::mlp(const std::string &symbol, const std::string &name, int64_t intermediate) {
  WeightEncoding promised = config.projectionEncoding;
  matrix(symbol + "gate", name + "gate_proj", intermediate, config.hidden, promised);
  matrix(symbol + "up", name + "up_proj", intermediate, config.hidden, promised);
  matrix(symbol + "down", name + "down_proj", config.hidden, intermediate, promised);
}

void Mapper::experts(const std::string &symbol, const std::string &name) {
  plain(symbol + "router", name + "gate.weight", {config.experts, config.hidden},
        WeightEncoding::F32);
  if (config.routingBias)
    plain(symbol + "router_bias", name + "e_score_correction_bias", {config.experts},
          WeightEncoding::F32);
  int64_t width = config.expertIntermediate;
  for (int64_t e = 0; e < config.experts; ++e) {
    std::string expert = fmt::format("{}experts.{}.", symbol, e);
    std::string stem = fmt::format("{}experts.{}.", name, e);
    matrix(expert + "gate", stem + "w1", width, config.hidden, config.expertEncoding);
    matrix(expert + "up", stem + "w3", width, config.hidden, config.expertEncoding);
    matrix(expert + "down", stem + "w2", config.hidden, width, config.expertEncoding);
  }
  if (config.sharedExperts)
    mlp(symbol + "shared.", name + "shared_experts.", config.sharedIntermediate);
}

void Mapper::plain(std::string symbol, std::string name, Shape shape, WeightEncoding encoding) {
  Weight weight{std::move(symbol), shape, encoding, {}};
  part(weight, WeightPart::Role::Values, std::move(name),
       encoding == WeightEncoding::F32 ? "F32" : "BF16", std::move(shape));
  weights.push_back(std::move(weight));
}

void Mapper::matrix(std::string symbol, const std::string &name, int64_t rows, int64_t columns,
                    WeightEncoding promised) {
  WeightEncoding encoding = checkpoint ? stored(name) : promised;
  remember(symbol, promised, encoding);
  checkColumns(symbol, encoding, columns);
  Weight weight{std::move(symbol), {rows, columns}, encoding, {}};
  switch (encoding) {
  case WeightEncoding::Mxfp8:
    mxfp8Parts(weight, name);
    break;
  case WeightEncoding::Nvfp4:
    modeloptParts(weight, name);
    break;
  case WeightEncoding::Nvfp4Packed:
    packedParts(weight, name);
    break;
  default:
    part(weight, WeightPart::Role::Values, name + ".weight", "BF16", weight.shape);
  }
  weights.push_back(std::move(weight));
}

/// A matrix is quantised exactly when its scale tensors exist (docs/checkpoints.md).
WeightEncoding Mapper::stored(const std::string &name) const {
  const Checkpoint::Tensor *scale = checkpoint->find(name + ".weight_scale");
  bool byteScale = scale && scale->entry->dtype == Dtype::U8;
  bool packed = has(name + ".weight_packed") || has(name + ".weight_global_scale");
  bool mxfp8 = has(name + ".weight_scale_inv") || (byteScale && !packed);
  bool modelopt = has(name + ".weight_scale_2") || (scale && !byteScale && !packed);
  if (int(packed) + int(mxfp8) + int(modelopt) > 1)
    throw Error(fmt::format("matrix {} is stored in two formats", name), name,
                fmt::format("scales of several formats exist:{}{}{}", mxfp8 ? " MXFP8" : "",
                            modelopt ? " NVFP4 (weight_scale_2)" : "",
                            packed ? " NVFP4 (weight_packed)" : ""),
                "write the checkpoint again with one format per matrix");
  if (packed)
    return WeightEncoding::Nvfp4Packed;
  if (modelopt)
    return WeightEncoding::Nvfp4;
  return mxfp8 ? WeightEncoding::Mxfp8 : WeightEncoding::Bf16;
}

void Mapper::checkColumns(const std::string &symbol, WeightEncoding encoding,
                          int64_t columns) const {
  int64_t group = encoding == WeightEncoding::Mxfp8 ? mxfp8Group
                  : encoding == WeightEncoding::Nvfp4 || encoding == WeightEncoding::Nvfp4Packed
                      ? nvfp4Group
                      : 1;
  if (columns % group != 0)
    throw Error(fmt::format("weight {} cannot be in {}", symbol, encodingName(encoding)), symbol,
                fmt::format("it has {} inputs; {} has one scale per {} inputs and needs a multiple "
                            "of that",
                            columns, encodingName(encoding), group),
                "keep this matrix in BF16");
}

void Mapper::mxfp8Parts(Weight &weight, const std::string &name) {
  int64_t rows = weight.shape[0], columns = weight.shape[1];
  // The releases say weight_scale_inv, the compressed-tensors library weight_scale.
  bool community = has(name + ".weight_scale") && !has(name + ".weight_scale_inv");
  part(weight, WeightPart::Role::Values, name + ".weight", "F8_E4M3", {rows, columns});
  part(weight, WeightPart::Role::BlockScale,
       name + (community ? ".weight_scale" : ".weight_scale_inv"), "U8",
       {rows, columns / mxfp8Group});
}

void Mapper::modeloptParts(Weight &weight, const std::string &name) {
  int64_t rows = weight.shape[0], columns = weight.shape[1];
  part(weight, WeightPart::Role::Values, name + ".weight", "U8", {rows, columns / 2});
  part(weight, WeightPart::Role::BlockScale, name + ".weight_scale", "F8_E4M3",
       {rows, columns / nvfp4Group});
  scalar(weight, WeightPart::Role::GlobalScale, name + ".weight_scale_2", true);
  scalar(weight, WeightPart::Role::InputScale, name + ".input_scale", false);
}

void Mapper::packedParts(Weight &weight, const std::string &name) {
  int64_t rows = weight.shape[0], columns = weight.shape[1];
  part(weight, WeightPart::Role::Values, name + ".weight_packed", "U8", {rows, columns / 2});
  part(weight, WeightPart::Role::BlockScale, name + ".weight_scale", "F8_E4M3",
       {rows, columns / nvfp4Group});
  scalar(weight, WeightPart::Role::GlobalScale, name + ".weight_global_scale", true);
  scalar(weight, WeightPart::Role::InputScale, name + ".input_global_scale", false);
}

/// One F32 number: shape [] (ModelOpt) or [1] (compressed-tensors), either is read. The input scale
/// is for quantised activations and may be absent; the releases have it.
void Mapper::scalar(Weight &weight, WeightPart::Role role, const std::string &name, bool needed) {
  Shape shape = weight.encoding == WeightEncoding::Nvfp4 ? Shape{} : Shape{1};
  if (checkpoint) {
    const Checkpoint::Tensor *tensor = checkpoint->find(name);
    if (!tensor && !needed)
      return;
    if (tensor && (tensor->entry->shape.empty() || tensor->entry->shape == Shape{1}))
      shape = tensor->entry->shape;
  }
  part(weight, role, name, "F32", std::move(shape));
}

void Mapper::part(Weight &weight, WeightPart::Role role, std::string name, const char *dtype,
                  Shape shape) {
  WeightPart made{role, std::move(name), dtype, std::move(shape)};
  if (checkpoint) {
    auto found = checkpoint->tensors().find(made.name);
    if (found == checkpoint->tensors().end()) {
      missing.push_back(made.name);
    } else {
      compare(made, found->second);
      used.insert(found->first);
    }
  }
  weight.parts.push_back(std::move(made));
}

void Mapper::compare(const WeightPart &part, const Checkpoint::Tensor &tensor) const {
  const TensorEntry &entry = *tensor.entry;
  bool sameType = dtypeName(entry.dtype) == part.dtype;
  if (sameType && entry.shape == part.shape)
    return;
  std::string why =
      sameType ? fmt::format("shape {} found, {} expected", shapeText(entry.shape),
                             shapeText(part.shape))
               : fmt::format("dtype {} found, {} expected", dtypeName(entry.dtype), part.dtype);
  std::string next = "correct config.json, or fetch the weights that belong to it";
  if (part.dtype == "BF16" && entry.dtype == Dtype::F8E4M3)
    next = fmt::format("a quantised matrix needs its scales: {}_scale_inv is not there", part.name);
  std::string file = checkpoint->fileOf(tensor);
  throw Error(fmt::format("{}: tensor {} does not fit the configuration", file, part.name),
              fmt::format("{}, tensor {}", file, part.name), why, next);
}

void Mapper::remember(const std::string &symbol, WeightEncoding promised, WeightEncoding found) {
  if (promised == found)
    return;
  auto &[count, first] = differing[{promised, found}];
  if (count++ == 0)
    first = symbol;
}

void Mapper::reportMissing() const {
  if (missing.empty())
    return;
  const std::string &first = missing.front();
  auto stray = checkpoint->unindexed().find(first);
  std::string why = stray == checkpoint->unindexed().end()
                        ? "the configuration needs it, and no file has it"
                        : fmt::format("the configuration needs it; {} holds it, but the index does "
                                      "not name it",
                                      stray->second);
  if (std::string_view near = nearestName(first, unusedNames()); !near.empty())
    why += fmt::format("; the nearest name that is there and not used is {}", printable(near));
  if (missing.size() > 1)
    why += fmt::format("; {} tensors are missing in all: {}", missing.size(), listText(missing));
  throw Error(fmt::format("{}: tensor {} is missing", checkpoint->folder().path(), first),
              fmt::format("tensor {}", first), why,
              "fetch the missing weights, or correct config.json");
}

std::vector<std::string_view> Mapper::unusedNames() const {
  std::vector<std::string_view> names;
  for (const auto &[name, tensor] : checkpoint->tensors())
    if (!used.contains(name) && leftOutGroup(name).empty())
      names.push_back(name);
  return names;
}

void Mapper::reportDisagreements() {
  for (const auto &[encodings, seen] : differing)
    findings.warnings.push_back(fmt::format(
        "{} matrices are stored in {} where quantization_config says {} (the first is {}); what is "
        "stored is used",
        seen.first, encodingName(encodings.second), encodingName(encodings.first), seen.second));
}

/// Sorts the tensors that no weight uses.
void Mapper::sortRest() {
  if (!checkpoint)
    return;
  for (const auto &[name, tensor] : checkpoint->tensors()) {
    if (used.contains(name))
      continue;
    if (std::string_view group = leftOutGroup(name); !group.empty()) {
      Findings::LeftOut &sum = findings.leftOut[std::string(group)];
      ++sum.tensors;
      sum.bytes += tensor.entry->byteCount();
    } else {
      findings.unknownTensors.emplace_back(name);
    }
  }
  for (const auto &[name, shard] : checkpoint->unindexed())
    findings.unknownTensors.push_back(name);
}

} // namespace

std::string_view leftOutGroup(std::string_view name) {
  for (std::string_view vision : {"vision_tower.", "multi_modal_projector.", "patch_merge_mlp."})
    if (name.starts_with(vision))
      return "vision";
  if (name.starts_with("language_model."))
    name.remove_prefix(15);
  if (name.starts_with("model.mtp.") || name.starts_with("mtp."))
    return "mtp";
  if (name.starts_with("model.dspark."))
    return "drafter";
  return "";
}

std::vector<Weight> buildWeightMap(const ModelConfig &config, const Checkpoint *checkpoint,
                                   Findings &findings) {
  if (checkpoint && !checkpoint->hasTensors())
    checkpoint = nullptr;
  return Mapper(config, checkpoint, findings).run();
}

} // namespace m3c
