// `quantization_config` of config.json and hf_quant_config.json: which storage they promise for the
// projections and for the routed experts.
#pragma once

#include "models/minimax_m3/ConfigReader.h"
#include "models/minimax_m3/ModelConfig.h"

#include <string>
#include <string_view>

namespace m3c {

/// Sets config.projectionEncoding and config.expertEncoding; BF16 without the key.
void readQuantizationConfig(ConfigReader &top, ModelConfig &config, Findings &findings);

/// A small JSON file of the checkpoint: its path, for messages, and its content.
struct JsonText {
  std::string file;
  std::string_view text;
};

/// Reads hf_quant_config.json, which ModelOpt writes beside config.json with the same content.
/// Throws Error naming both files where `quantization_config` says otherwise. Where config.json has
/// none the promise of this file is taken.
void readHfQuantConfig(const JsonText &quant, const JsonText &config, ModelConfig &model,
                       Findings &findings);

} // namespace m3c
