// The text model of MiniMax-M3 / M3.1-Flash as `config.json` describes it (docs/checkpoints.md).
// Every size is an element count unless its comment gives another unit.
#pragma once

#include "models/minimax_m3/Findings.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace m3c {

/// How one matrix is stored in the checkpoint.
enum class WeightEncoding {
  F32,         ///< router weight and bias
  Bf16,        ///< [N,K]
  Mxfp8,       ///< E4M3 [N,K] with an E8M0 scale per 32 along K
  Nvfp4,       ///< ModelOpt: E2M1 [N,K/2] bytes, E4M3 scale per 16, FP32 multiplier
  Nvfp4Packed, ///< compressed-tensors: the same, the FP32 global scale is a divisor
};

struct ModelConfig {
  std::string modelType;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int64_t vocab = 0;
  int64_t maxPositions = 0; ///< tokens
  int64_t rotaryDim = 0;
  double ropeTheta = 0;
  double normEps = 0;

  int64_t denseIntermediate = 0;
  int64_t expertIntermediate = 0;
  int64_t sharedIntermediate = 0;
  int64_t experts = 0;
  int64_t expertsPerToken = 0;
  int64_t sharedExperts = 0; ///< 0 or 1
  bool routingBias = false;
  double routedScale = 1;
  double swigluAlpha = 0;
  double swigluLimit = 0;

  int64_t indexHeads = 0; ///< equals kvHeads where a layer is sparse
  int64_t indexDim = 0;
  int64_t blockSize = 128;
  int64_t topkBlocks = 0;
  int64_t initBlocks = 0;
  int64_t localBlocks = 1;

  std::vector<bool> moeLayer;    ///< [layers]
  std::vector<bool> sparseLayer; ///< [layers]

  int64_t bosToken = -1;
  int64_t eosToken = -1;
  int64_t padToken = -1; ///< -1 = none

  /// Encodings that `quantization_config` promises; what a checkpoint stores decides (a tensor is
  /// quantised exactly when its scale exists). They are used alone where only config.json exists.
  WeightEncoding projectionEncoding = WeightEncoding::Bf16;
  WeightEncoding expertEncoding = WeightEncoding::Bf16;

  int64_t groupSize() const { return heads / kvHeads; } ///< query heads per KV head
  bool operator==(const ModelConfig &) const = default;
  bool anySparse() const;
  bool anyMoe() const;
};

/// What one of `ranks` processors computes when attention heads, index heads, intermediate sizes
/// and the vocabulary are divided among them. Routed experts stay all, each narrower. Special
/// tokens are dropped, as their ids may lie in another rank's part. Throws Error naming a size that
/// does not divide.
ModelConfig shardOf(const ModelConfig &whole, int64_t ranks);
/// The first `count` layers of a model. Throws Error when it has fewer, or `count` is not positive.
ModelConfig firstLayers(const ModelConfig &whole, int64_t count);

/// "f32", "bf16", "mxfp8", "nvfp4", "nvfp4-pack-quantized".
std::string_view encodingName(WeightEncoding encoding);

/// Reads the text of a config.json: the keys of the released checkpoints, or those that Hugging
/// Face's library writes. Throws Error for a missing or contradictory size, a value out of range,
/// or a variant that m3c does not have; keys that it does not know go to `findings`. `file` names
/// the file in messages. Sizes are bounded before anything is allocated by them.
ModelConfig parseModelConfig(std::string_view text, const std::string &file, Findings &findings);

} // namespace m3c
