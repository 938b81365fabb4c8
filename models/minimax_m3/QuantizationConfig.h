// `quantization_config` of config.json (model.md §7.2 to §7.4): which storage it promises for the
// projections and for the routed experts.
#pragma once

#include "models/minimax_m3/ConfigReader.h"
#include "models/minimax_m3/ModelConfig.h"

namespace m3c {

/// Sets config.projectionEncoding and config.expertEncoding; BF16 without the key.
void readQuantizationConfig(ConfigReader &top, ModelConfig &config, Findings &findings);

} // namespace m3c
