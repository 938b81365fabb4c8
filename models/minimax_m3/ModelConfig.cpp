#include "models/minimax_m3/ModelConfig.h"

#include "models/minimax_m3/ConfigReader.h"
#include "models/minimax_m3/QuantizationConfig.h"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace m3c {
namespace {

using nlohmann::json;

// Bounds far above any known model; they keep a wrong file from asking for much memory.
constexpr int64_t maxWidth = 1 << 20;
constexpr int64_t maxLayers = 1024;
constexpr int64_t maxHeads = 4096;
constexpr int64_t maxVocab = 1 << 24;
constexpr int64_t maxPositions = int64_t(1) << 32;
constexpr int64_t maxExpertMatrices = 1 << 16; ///< layers × experts

constexpr int64_t onlyHeadDim = 128;

const json emptyObject = json::object();

void readTop(ConfigReader &top, ModelConfig &config) {
  std::optional<std::string> type = top.optionalString("model_type");
  if (!type)
    top.fail("model_type", "the key is missing; minimax_m3_vl is expected");
  if (*type != "minimax_m3_vl" && *type != "minimax_m3_vl_text")
    top.fail("model_type", fmt::format("model_type {} is not known; m3c compiles minimax_m3_vl",
                                       printable(*type)));
  config.modelType = *type;
  if (const json *list = top.find("architectures")) {
    bool known = list->is_array() && list->size() == 1 && (*list)[0].is_string();
    if (known) {
      const std::string &name = (*list)[0].get_ref<const std::string &>();
      known = name == "MiniMaxM3SparseForConditionalGeneration" ||
              name == "MiniMaxM3SparseForCausalLM" ||
              name == "MiniMaxM3VLForConditionalGeneration" || name == "MiniMaxM3VLForCausalLM";
    }
    if (!known)
      top.fail("architectures", fmt::format("{} is not known; m3c compiles "
                                            "MiniMaxM3SparseForConditionalGeneration",
                                            jsonText(*list)));
  }
  top.requireFlag("tie_word_embeddings", false, "the model has its own output matrix");
  // Vision, and what only training or other programs read.
  top.inert({"vision_config",
             "image_token_index",
             "video_token_index",
             "image_token_id",
             "video_token_id",
             "projector_hidden_size",
             "projector_hidden_act",
             "multimodal_projector_bias",
             "patch_merge_bias",
             "vision_feature_layer",
             "vision_feature_select_strategy",
             "image_seq_length",
             "process_image_mode",
             "image_grid_pinpoints",
             "img_token_compression_config",
             "merged_hidden_size",
             "torch_dtype",
             "dtype",
             "transformers_version",
             "auto_map",
             "_name_or_path",
             "initializer_range",
             "use_cache"});
}

void readSizes(ConfigReader &text, ModelConfig &config) {
  config.layers = text.integer({"num_hidden_layers"}, 1, maxLayers);
  config.hidden = text.integer({"hidden_size"}, 1, maxWidth);
  config.heads = text.integer({"num_attention_heads"}, 1, maxHeads);
  config.kvHeads = text.integer({"num_key_value_heads"}, 1, maxHeads);
  if (config.heads % config.kvHeads != 0)
    text.fail("num_attention_heads",
              fmt::format("{} query heads are no multiple of num_key_value_heads {}", config.heads,
                          config.kvHeads));
  config.headDim = text.integer({"head_dim"}, 1, maxWidth);
  if (config.headDim != onlyHeadDim) // docs/checkpoints.md
    text.fail("head_dim", fmt::format("found {}, only {} is supported: the cache stores a head as "
                                      "8 groups of 16 values",
                                      config.headDim, onlyHeadDim));
  config.vocab = text.integer({"vocab_size"}, 1, maxVocab);
  config.maxPositions = text.integer({"max_position_embeddings"}, 1, maxPositions);
  config.normEps = text.positive("rms_norm_eps");
}

/// The rotated part of a head, from either spelling or both.
int64_t rotaryDim(ConfigReader &text, ConfigReader &rope, int64_t headDim) {
  std::optional<int64_t> dim = text.optionalInteger({"rotary_dim"}, 2, headDim);
  std::optional<double> factor;
  for (ConfigReader *reader : {&text, &rope})
    if (const json *value = reader->find("partial_rotary_factor")) {
      if (!value->is_number() || (factor && *factor != value->get<double>()))
        reader->fail(
            "partial_rotary_factor",
            fmt::format("found {}, one number between 0 and 1 is expected", jsonText(*value)));
      factor = value->get<double>();
    }
  if (!dim && !factor)
    text.fail("rotary_dim", "neither rotary_dim nor partial_rotary_factor is there");
  double fromFactor = factor ? *factor * double(headDim) : double(*dim);
  if (dim && fromFactor != double(*dim))
    text.fail("rotary_dim", fmt::format("rotary_dim {} and partial_rotary_factor {} disagree for "
                                        "head_dim {}",
                                        *dim, *factor, headDim));
  if (!(fromFactor >= 2 && fromFactor <= double(headDim)) || std::fmod(fromFactor, 2) != 0)
    text.fail(dim ? "rotary_dim" : "partial_rotary_factor",
              fmt::format("{} dimensions would be rotated; an even number from 2 to head_dim {} is "
                          "expected",
                          fromFactor, headDim));
  return int64_t(fromFactor);
}

void readRope(ConfigReader &text, ModelConfig &config, Findings &findings) {
  const json *parameters = text.find({"rope_parameters", "rope_scaling"});
  if (parameters && !parameters->is_object())
    text.fail(text.find("rope_parameters") ? "rope_parameters" : "rope_scaling",
              fmt::format("found {}, an object is expected", jsonText(*parameters)));
  ConfigReader rope(parameters ? *parameters : emptyObject, text.file(),
                    text.name("rope_parameters."), findings);
  rope.requireString("rope_type", {"default"});
  rope.requireString("type", {"default"});
  bool inText = text.find("rope_theta") != nullptr;
  config.ropeTheta = !inText && rope.find("rope_theta") ? rope.positive("rope_theta")
                                                        : text.positive("rope_theta");
  if (inText && rope.find("rope_theta") && rope.positive("rope_theta") != config.ropeTheta)
    text.fail("rope_theta", "rope_theta and rope_parameters.rope_theta disagree");
  config.rotaryDim = rotaryDim(text, rope, config.headDim);
  rope.reportUnknown();
}

void readMoe(ConfigReader &text, ModelConfig &config) {
  config.experts = text.integer({"num_local_experts", "num_experts"}, 1, maxExpertMatrices);
  if (config.layers * config.experts > maxExpertMatrices)
    text.fail("num_local_experts", fmt::format("{} layers with {} experts each are more than {} "
                                               "experts in all",
                                               config.layers, config.experts, maxExpertMatrices));
  config.expertsPerToken = text.integer({"num_experts_per_tok"}, 1, config.experts);
  config.expertIntermediate = text.integer({"intermediate_size"}, 1, maxWidth);
  config.routedScale = text.positive("routed_scaling_factor");
  text.requireString("scoring_func", {"sigmoid"});
  std::optional<int64_t> shared = text.optionalInteger({"n_shared_experts"}, 0, 1);
  if (!shared) {
    shared = text.find("shared_intermediate_size") ? 1 : 0;
    text.note(fmt::format("{} is absent: {}, as shared_intermediate_size is {}",
                          text.name("n_shared_experts"), *shared, *shared ? "there" : "absent"));
  }
  config.sharedExperts = *shared;
  if (config.sharedExperts)
    config.sharedIntermediate = text.integer({"shared_intermediate_size"}, 1, maxWidth);
  std::optional<bool> bias = text.optionalFlag("use_routing_bias");
  if (!bias)
    text.note(text.name("use_routing_bias") + " is absent: true, as in the model's own library");
  config.routingBias = bias.value_or(true);
}

void readFfn(ConfigReader &text, ModelConfig &config) {
  std::optional<std::vector<bool>> freq = text.flags("moe_layer_freq", config.layers);
  std::optional<std::vector<bool>> kinds =
      text.kinds("mlp_layer_types", config.layers, "dense", "sparse");
  if (freq && kinds && *freq != *kinds)
    text.fail("mlp_layer_types", "moe_layer_freq and mlp_layer_types disagree");
  if (!freq && !kinds)
    text.note(fmt::format("{} and mlp_layer_types are absent: every layer has experts, as in the "
                          "model's own library",
                          text.name("moe_layer_freq")));
  config.moeLayer = freq ? *freq : kinds ? *kinds : std::vector<bool>(size_t(config.layers), true);
  if (config.anyMoe())
    readMoe(text, config);
  if (std::count(config.moeLayer.begin(), config.moeLayer.end(), false))
    config.denseIntermediate = text.integer({"dense_intermediate_size"}, 1, maxWidth);
  // The library writes "silu" there and computes the clamped activation all the same.
  text.requireString("hidden_act", {"swigluoai", "silu"});
  config.swigluAlpha = text.positive("swiglu_alpha");
  config.swigluLimit = text.positive("swiglu_limit");
  if (text.find("swiglu_beta") && text.positive("swiglu_beta") != 1.0)
    text.fail("swiglu_beta", "only 1 is supported: the activation is (up + 1) · gate · sigmoid");
  text.inert({"intermediate_size", "dense_intermediate_size", "shared_intermediate_size",
              "num_local_experts", "num_experts_per_tok", "n_shared_experts", "scoring_func",
              "use_routing_bias", "routed_scaling_factor", "num_experts"});
}

/// Which layers select blocks. `sparse` reads sparse_attention_config.
void readSparseLayers(ConfigReader &text, ConfigReader &sparse, ModelConfig &config) {
  std::optional<bool> use = sparse.optionalFlag("use_sparse_attention");
  std::optional<std::vector<bool>> freq = sparse.flags("sparse_attention_freq", config.layers);
  std::optional<std::vector<bool>> kinds =
      text.kinds("layer_types", config.layers, "full_attention", "minimax_m3_sparse");
  if (use == false) {
    freq = std::vector<bool>(size_t(config.layers), false);
    text.note(sparse.name("use_sparse_attention") + " is false: every layer attends to all keys");
  } else if (use == true && !freq && !kinds) {
    sparse.fail("sparse_attention_freq",
                "the key is missing although use_sparse_attention is true");
  }
  if (freq && kinds && *freq != *kinds)
    text.fail("layer_types", "layer_types and sparse_attention_config disagree");
  if (!freq && !kinds)
    text.note(text.name("layer_types") +
              " and sparse_attention_config.sparse_attention_freq are absent: every layer attends "
              "to all keys, as in the model's own library");
  config.sparseLayer = freq    ? *freq
                       : kinds ? *kinds
                               : std::vector<bool>(size_t(config.layers), false);
}

/// An integer that either spelling may give.
int64_t sparseInteger(ConfigReader &text, ConfigReader &sparse, const char *key,
                      const char *flatKey, int64_t low, int64_t high) {
  std::optional<int64_t> first = sparse.optionalInteger({key}, low, high);
  std::optional<int64_t> second = text.optionalInteger({flatKey}, low, high);
  if (first && second && *first != *second)
    sparse.fail(key, fmt::format("found {}, and {} is {}: two spellings of one key disagree",
                                 *first, text.name(flatKey), *second));
  if (!first && !second)
    sparse.fail(key, fmt::format("the key is missing (other spelling: {}), and some layers are "
                                 "sparse",
                                 text.name(flatKey)));
  return first ? *first : *second;
}

void readIndex(ConfigReader &text, ConfigReader &sparse, ModelConfig &config) {
  config.indexHeads =
      sparseInteger(text, sparse, "sparse_num_index_heads", "index_n_heads", 1, maxHeads);
  if (config.indexHeads != config.kvHeads)
    sparse.fail("sparse_num_index_heads",
                fmt::format("found {}, num_key_value_heads is {}: there is one index head per KV "
                            "head",
                            config.indexHeads, config.kvHeads));
  config.indexDim =
      sparseInteger(text, sparse, "sparse_index_dim", "index_head_dim", onlyHeadDim, onlyHeadDim);
  config.blockSize = sparseInteger(text, sparse, "sparse_block_size", "index_block_size", 128, 128);
  config.topkBlocks =
      sparseInteger(text, sparse, "sparse_topk_blocks", "index_topk_blocks", 1, 1 << 16);
  config.localBlocks =
      sparseInteger(text, sparse, "sparse_local_block", "index_local_blocks", 1, 1);
  sparse.requireString("sparse_score_type", {"max"});
  std::optional<int64_t> init = sparse.optionalInteger({"sparse_init_block"}, 0, 1 << 16);
  if (!init)
    text.note(sparse.name("sparse_init_block") + " is absent: 0, as in the model's own library");
  config.initBlocks = init.value_or(0);
  if (config.initBlocks + config.localBlocks > config.topkBlocks)
    sparse.fail("sparse_init_block",
                fmt::format("{} first blocks and the own block are always kept, which is more than "
                            "sparse_topk_blocks {}",
                            config.initBlocks, config.topkBlocks));
  std::optional<std::vector<bool>> selectOnly =
      sparse.flags("sparse_disable_index_value", config.layers);
  for (int64_t i = 0; selectOnly && i < config.layers; ++i)
    if (config.sparseLayer[size_t(i)] && !(*selectOnly)[size_t(i)])
      sparse.fail("sparse_disable_index_value",
                  fmt::format("layer {} is sparse and has 0; only 1 is supported: the index branch "
                              "selects blocks and gives no values",
                              i));
}

void readAttention(ConfigReader &text, ModelConfig &config, Findings &findings) {
  text.requireFlag("use_gemma_norm", true, "every norm multiplies by 1 + weight");
  text.requireFlag("attention_output_gate", false, "the attention has no output gate");
  text.requireFlag("use_qk_norm", true, "queries and keys are normalised per head");
  text.requireString("qk_norm_type", {"per_head"});
  text.requireFlag("attention_bias", false, "the projections have no bias");
  const json *object = text.find("sparse_attention_config");
  if (object && !object->is_object())
    text.fail("sparse_attention_config",
              fmt::format("found {}, an object is expected", jsonText(*object)));
  ConfigReader sparse(object ? *object : emptyObject, text.file(),
                      text.name("sparse_attention_config."), findings);
  readSparseLayers(text, sparse, config);
  if (config.anySparse())
    readIndex(text, sparse, config);
  sparse.inert({"sparse_num_index_heads", "sparse_index_dim", "sparse_block_size",
                "sparse_topk_blocks", "sparse_local_block", "sparse_score_type",
                "sparse_init_block", "sparse_disable_index_value"});
  text.inert({"index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks",
              "index_local_blocks"});
  sparse.reportUnknown();
}

/// A token id below the vocabulary, or -1 for none. A list gives its first entry.
int64_t tokenId(ConfigReader &text, const char *key, int64_t vocab) {
  const json *value = text.find(key);
  if (!value)
    return -1;
  if (value->is_array() && !value->empty()) {
    if (value->size() > 1)
      text.warn(fmt::format("{}: {} lists {} tokens; the first, {}, is used", text.file(),
                            text.name(key), value->size(), jsonText((*value)[0])));
    value = &(*value)[0];
  }
  if (!value->is_number_unsigned() || value->get<uint64_t>() >= uint64_t(vocab))
    text.fail(key, fmt::format("found {}, a token id below vocab_size {} is expected",
                               jsonText(*value), vocab));
  return value->get<int64_t>();
}

void readTokens(ConfigReader &text, ModelConfig &config) {
  config.bosToken = tokenId(text, "bos_token_id", config.vocab);
  config.eosToken = tokenId(text, "eos_token_id", config.vocab);
  config.padToken = tokenId(text, "pad_token_id", config.vocab);
  if (config.eosToken < 0)
    text.note(text.name("eos_token_id") + " is absent: text ends at the length asked for");
}

void readText(ConfigReader &text, ModelConfig &config, Findings &findings) {
  readSizes(text, config);
  readRope(text, config, findings);
  readAttention(text, config, findings);
  readFfn(text, config);
  readTokens(text, config);
  text.requireFlag("tie_word_embeddings", false, "the model has its own output matrix");
  // Training, other programs, and the MTP module, whose tensors are left out.
  text.inert({"architectures", "model_type", "attention_dropout", "initializer_range",
              "router_aux_loss_coef", "router_jitter_noise", "output_router_logits",
              "num_mtp_modules", "num_nextn_predict_layers", "torch_dtype", "dtype", "use_cache",
              "transformers_version", "_name_or_path"});
}

} // namespace

bool ModelConfig::anySparse() const {
  return std::count(sparseLayer.begin(), sparseLayer.end(), true) != 0;
}

bool ModelConfig::anyMoe() const { return std::count(moeLayer.begin(), moeLayer.end(), true) != 0; }

std::string_view encodingName(WeightEncoding encoding) {
  switch (encoding) {
  case WeightEncoding::F32:
    return "f32";
  case WeightEncoding::Bf16:
    return "bf16";
  case WeightEncoding::Mxfp8:
    return "mxfp8";
  case WeightEncoding::Nvfp4:
    return "nvfp4";
  case WeightEncoding::Nvfp4Packed:
    return "nvfp4-pack-quantized";
  }
  return "";
}

ModelConfig parseModelConfig(std::string_view content, const std::string &file,
                             Findings &findings) {
  json document = parseJson(content, file, {.bytes = 16 << 20, .depth = 16});
  ConfigReader top(document.is_object() ? document : emptyObject, file, "", findings);
  if (!document.is_object())
    top.fail("", fmt::format("an object is expected, found {}", jsonKind(document)));
  ModelConfig config;
  readTop(top, config);
  const json *textObject = top.find("text_config");
  bool flat = !textObject && config.modelType == "minimax_m3_vl_text";
  if (flat) {
    readText(top, config, findings);
  } else {
    if (!textObject)
      top.fail("text_config", "the key is missing");
    if (!textObject->is_object())
      top.fail("text_config",
               fmt::format("found {}, an object is expected", jsonText(*textObject)));
    ConfigReader text(*textObject, file, "text_config.", findings);
    readText(text, config, findings);
    text.reportUnknown();
    top.inert({"bos_token_id", "eos_token_id", "pad_token_id"}); // repeated by some writers
  }
  readQuantizationConfig(top, config, findings);
  top.reportUnknown();
  return config;
}

ModelConfig shardOf(const ModelConfig &whole, int64_t ranks) {
  ModelConfig part = whole;
  auto divide = [&](int64_t ModelConfig::*size, const char *name) {
    if (ranks < 1 || part.*size % ranks)
      throw Error(fmt::format("the model cannot be divided among {} ranks", ranks), name,
                  fmt::format("{} is no multiple of {}", part.*size, ranks),
                  "choose a number that divides heads and intermediate sizes");
    part.*size /= ranks;
  };
  divide(&ModelConfig::heads, "num_attention_heads");
  divide(&ModelConfig::kvHeads, "num_key_value_heads");
  divide(&ModelConfig::indexHeads, "sparse_num_index_heads");
  divide(&ModelConfig::denseIntermediate, "dense_intermediate_size");
  divide(&ModelConfig::expertIntermediate, "intermediate_size");
  divide(&ModelConfig::sharedIntermediate, "shared_intermediate_size");
  divide(&ModelConfig::vocab, "vocab_size");
  part.bosToken = part.eosToken = part.padToken = -1;
  return part;
}

ModelConfig firstLayers(const ModelConfig &whole, int64_t count) {
  if (count < 1 || count > whole.layers)
    throw Error(fmt::format("{} layers cannot be taken", count), "num_hidden_layers",
                fmt::format("the model has {}", whole.layers), "ask for 1 or more, at most these");
  ModelConfig part = whole;
  part.layers = count;
  part.moeLayer.resize(size_t(count));
  part.sparseLayer.resize(size_t(count));
  return part;
}

} // namespace m3c
