// A small model of unusual dimensions, and checkpoints of it in every encoding.
#pragma once

#include "models/minimax_m3/WeightMap.h"
#include "tests/unit/base/TempFolder.h"

#include <nlohmann/json.hpp>

namespace m3c::test {

/// 3 layers (sparse dense sparse; dense MoE dense), 6 query and 3 KV heads, 5 experts top-3.
inline nlohmann::json smallConfig() {
  return nlohmann::json::parse(R"({
    "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
    "model_type": "minimax_m3_vl", "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "text_config": {
      "architectures": ["MiniMaxM3SparseForCausalLM"], "hidden_size": 96, "num_hidden_layers": 3,
      "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 128, "vocab_size": 300,
      "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "use_gemma_norm": true,
      "attention_output_gate": false, "rope_theta": 5000000, "rotary_dim": 64,
      "partial_rotary_factor": 0.5, "use_qk_norm": true, "qk_norm_type": "per_head",
      "tie_word_embeddings": false, "hidden_act": "swigluoai", "swiglu_alpha": 1.702,
      "swiglu_limit": 7.0, "dense_intermediate_size": 160, "intermediate_size": 64,
      "shared_intermediate_size": 32, "num_local_experts": 5, "num_experts_per_tok": 3,
      "n_shared_experts": 1, "scoring_func": "sigmoid", "use_routing_bias": true,
      "routed_scaling_factor": 2.0, "moe_layer_freq": [0, 1, 0], "bos_token_id": 298,
      "eos_token_id": 297, "pad_token_id": null, "num_mtp_modules": 1,
      "sparse_attention_config": {
        "use_sparse_attention": true, "sparse_index_dim": 128, "sparse_num_index_heads": 3,
        "sparse_topk_blocks": 4, "sparse_block_size": 128, "sparse_score_type": "max",
        "sparse_init_block": 1, "sparse_local_block": 1,
        "sparse_disable_index_value": [1, 1, 1], "sparse_attention_freq": [1, 0, 1]}}})");
}

/// The tensors of a checkpoint, to be changed by a test before they are written.
struct TensorSpec {
  Dtype dtype;
  std::vector<int64_t> shape;
};
using TensorSpecs = std::map<std::string, TensorSpec>;

/// What a checkpoint of `config` holds; quantisation as its quantization_config says.
inline TensorSpecs specsOf(const nlohmann::json &config) {
  Findings findings;
  ModelConfig parsed = parseModelConfig(config.dump(), "config.json", findings);
  TensorSpecs specs;
  for (const Weight &weight : buildWeightMap(parsed, nullptr, findings))
    for (const WeightPart &part : weight.parts)
      specs[part.name] = {*parseDtype(part.dtype), part.shape};
  return specs;
}

/// Writes config.json and model.safetensors; every byte of the tensors is 0x38 (1.0 in E4M3).
inline void writeModel(const TempFolder &folder, const nlohmann::json &config,
                       const TensorSpecs &specs) {
  folder.write("config.json", config.dump());
  SafetensorsWriter writer;
  for (const auto &[name, spec] : specs) {
    std::vector<std::byte> bytes(*tensorBytes(spec.dtype, spec.shape), std::byte{0x38});
    writer.add(name, spec.dtype, spec.shape, std::span<const std::byte>(bytes));
  }
  writer.write(folder.path("model.safetensors"));
}

} // namespace m3c::test
