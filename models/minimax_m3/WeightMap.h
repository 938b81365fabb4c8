// Which logical weights the text model has, and which checkpoint tensors each is made of
// (docs/checkpoints.md). The symbol is the name that the IR, the plan and error messages use.
#pragma once

#include "models/minimax_m3/ModelConfig.h"
#include "runtime/checkpoint/Checkpoint.h"

namespace m3c {

/// One stored tensor of a logical weight. `name` is the full checkpoint name.
struct WeightPart {
  enum class Role { Values, BlockScale, GlobalScale, InputScale } role;
  std::string name;
  std::string dtype;          ///< safetensors spelling: "BF16", "F8_E4M3", "U8", "F32"
  std::vector<int64_t> shape; ///< as stored
};

/// A logical weight: a matrix [N,K] (`y = x Wᵀ`) or a vector [N]; `symbol` is for instance
/// "layers.3.q_proj", "layers.3.experts.7.gate" (w1), ".up" (w3), ".down" (w2), "embed", "lm_head",
/// "layers.3.router", "layers.3.router_bias", "layers.3.input_norm", "layers.3.post_norm",
/// "layers.3.q_norm", "layers.3.index_k_norm", "layers.3.shared.gate", "layers.3.mlp.down", "norm".
struct Weight {
  std::string symbol;
  std::vector<int64_t> shape;
  WeightEncoding encoding;
  std::vector<WeightPart> parts;
};

/// Every weight that the model needs, embedding first, then layer by layer, final norm and head.
/// With a checkpoint that has tensors, what is stored decides each encoding, and every part must
/// exist with the dtype and shape that encoding and config need; Error names file, tensor, expected
/// and found. Without (null, or a folder with config.json alone) the encodings are those that
/// quantization_config promises. Tensors that are left out or unknown go to `findings`.
std::vector<Weight> buildWeightMap(const ModelConfig &config, const Checkpoint *checkpoint,
                                   Findings &findings);

/// "vision", "mtp" or "drafter" for a tensor that m3c recognises and does not use, else empty.
std::string_view leftOutGroup(std::string_view tensorName);

} // namespace m3c
