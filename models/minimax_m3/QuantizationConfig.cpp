#include "models/minimax_m3/QuantizationConfig.h"

#include "runtime/base/Json.h"

#include <fmt/format.h>

namespace m3c {
namespace {

using nlohmann::json;

void readMxfp8(ConfigReader &quant, ModelConfig &config) {
  const json *block = quant.find("weight_block_size");
  if (block && *block != json::array({1, 32}))
    quant.fail("weight_block_size",
               fmt::format("found {}, only [1, 32] is supported", jsonText(*block)));
  quant.requireString("fmt", {"e4m3"});
  quant.requireString("scale_fmt", {"ue8m0"});
  config.projectionEncoding = config.expertEncoding = WeightEncoding::Mxfp8;
  quant.requireString("moe_quant_algo", {"NVFP4", "MXFP8"});
  quant.requireString("moe_quant_format", {"nvfp4-pack-quantized", "mxfp8"});
  if (quant.optionalString("moe_quant_algo") == "NVFP4") {
    if (quant.optionalString("moe_quant_format").value_or("nvfp4-pack-quantized") !=
        "nvfp4-pack-quantized")
      quant.fail("moe_quant_format", "moe_quant_algo is NVFP4; nvfp4-pack-quantized is expected");
    config.expertEncoding = WeightEncoding::Nvfp4Packed;
  }
  quant.inert({"activation_scheme", "ignored_layers", "modules_to_not_convert"});
}

std::optional<WeightEncoding> modeloptEncoding(const std::string &algorithm) {
  if (algorithm == "MXFP8")
    return WeightEncoding::Mxfp8;
  if (algorithm == "NVFP4")
    return WeightEncoding::Nvfp4;
  return std::nullopt;
}

/// {"quant_algo": …, "group_size": …} of one module.
WeightEncoding readModule(const json &module, const std::string &name, ConfigReader &layers,
                          Findings &findings) {
  if (!module.is_object())
    layers.fail(printable(name), fmt::format("found {}, an object is expected", jsonText(module)));
  ConfigReader reader(module, layers.file(), layers.name(printable(name) + "."), findings);
  std::string algorithm = reader.optionalString("quant_algo").value_or("");
  std::optional<WeightEncoding> encoding = modeloptEncoding(algorithm);
  if (!encoding)
    reader.fail("quant_algo",
                fmt::format("found \"{}\", supported: MXFP8, NVFP4", printable(algorithm)));
  int64_t group = *encoding == WeightEncoding::Nvfp4 ? 16 : 32;
  reader.optionalInteger({"group_size"}, group, group);
  reader.reportUnknown();
  return *encoding;
}

void readModelopt(ConfigReader &quant, ModelConfig &config, Findings &findings) {
  std::string algorithm = quant.optionalString("quant_algo").value_or("");
  quant.inert({"kv_cache_quant_algo", "exclude_modules", "ignore", "producer"});
  const json *layers = quant.find("quantized_layers");
  if (std::optional<WeightEncoding> all = modeloptEncoding(algorithm)) {
    config.projectionEncoding = config.expertEncoding = *all;
    int64_t group = *all == WeightEncoding::Nvfp4 ? 16 : 32;
    quant.optionalInteger({"group_size"}, group, group);
    return;
  }
  if (algorithm != "MIXED_PRECISION")
    quant.fail("quant_algo", fmt::format("found \"{}\", supported: MXFP8, NVFP4, MIXED_PRECISION",
                                         printable(algorithm)));
  if (!layers || !layers->is_object() || layers->empty())
    quant.fail("quantized_layers", "MIXED_PRECISION needs an object from modules to algorithms");
  ConfigReader reader(*layers, quant.file(), quant.name("quantized_layers."), findings);
  for (const auto &[name, module] : layers->items()) {
    WeightEncoding encoding = readModule(module, name, reader, findings);
    bool routed = name.find(".experts.") != name.npos;
    (routed ? config.expertEncoding : config.projectionEncoding) = encoding;
  }
}

/// Community checkpoints of the compressed-tensors library; what is stored decides, the promise is
/// used for messages and for folders without weights.
void readCompressedTensors(ConfigReader &quant, ModelConfig &config) {
  quant.requireString("format", {"nvfp4-pack-quantized", "mxfp8-quantized", "mxfp8",
                                 "float-quantized", "mixed-precision"});
  std::string format = quant.optionalString("format").value_or("mixed-precision");
  if (format == "nvfp4-pack-quantized") {
    config.expertEncoding = WeightEncoding::Nvfp4Packed;
  } else if (format != "mixed-precision") {
    config.projectionEncoding = config.expertEncoding = WeightEncoding::Mxfp8;
  }
  quant.inert({"config_groups", "ignore", "quantization_status", "kv_cache_scheme",
               "global_compression_ratio", "version", "sparsity_config", "transform_config"});
}

} // namespace

void readQuantizationConfig(ConfigReader &top, ModelConfig &config, Findings &findings) {
  const json *object = top.find("quantization_config");
  if (!object)
    return;
  if (!object->is_object())
    top.fail("quantization_config",
             fmt::format("found {}, an object is expected", jsonText(*object)));
  ConfigReader quant(*object, top.file(), "quantization_config.", findings);
  std::string method = quant.optionalString("quant_method").value_or("");
  if (method == "mxfp8")
    readMxfp8(quant, config);
  else if (method == "modelopt")
    readModelopt(quant, config, findings);
  else if (method == "compressed-tensors")
    readCompressedTensors(quant, config);
  else
    quant.fail("quant_method", fmt::format("\"{}\" is not known; supported: mxfp8, modelopt, "
                                           "compressed-tensors",
                                           printable(method)));
  quant.reportUnknown();
}

} // namespace m3c
