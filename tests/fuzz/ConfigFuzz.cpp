// Any bytes as config.json and, after a first zero byte, as hf_quant_config.json: an Error or a
// configuration whose weights can be listed.
#include "models/minimax_m3/QuantizationConfig.h"
#include "models/minimax_m3/WeightMap.h"
#include "runtime/base/Error.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  std::string_view text = bytes.substr(0, bytes.find('\0'));
  m3c::Findings findings;
  try {
    m3c::ModelConfig config = m3c::parseModelConfig(text, "config.json", findings);
    if (text.size() < size)
      m3c::readHfQuantConfig({"hf_quant_config.json", bytes.substr(text.size() + 1)},
                             {"config.json", text}, config, findings);
    if (config.heads % config.kvHeads != 0 || int64_t(config.moeLayer.size()) != config.layers ||
        int64_t(config.sparseLayer.size()) != config.layers || config.rotaryDim > config.headDim)
      std::abort();
    // Listing is linear in layers and experts; the bounds on those are tested elsewhere.
    if (config.layers * (config.experts + 1) < 1000)
      m3c::buildWeightMap(config, nullptr, findings);
  } catch (const m3c::Error &) {
  }
  return 0;
}
