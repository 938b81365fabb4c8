#include "models/minimax_m3/QuantizationConfig.h"

#include "runtime/base/Error.h"
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

const json &member(const json &object, const std::string &key) {
  static const json null;
  auto found = object.find(key);
  return found == object.end() ? null : *found;
}

/// A key that only one of two objects has contradicts nothing.
bool contradict(const json &a, const json &b, const char *key) {
  const json &left = member(a, key), &right = member(b, key);
  return !left.is_null() && !right.is_null() && left != right;
}

/// What ModelOpt writes twice must be equal: key by key, and module by module.
class Comparison {
public:
  Comparison(const JsonText &quant, const JsonText &config) : quant(quant), config(config) {}

  void compare(const json &here, const json &there) const {
    if (member(there, "quant_method") != "modelopt")
      differ("quant_method", "modelopt", member(there, "quant_method"));
    for (const char *key : {"quant_algo", "kv_cache_quant_algo", "group_size"})
      if (contradict(here, there, key))
        differ(key, member(here, key), member(there, key));
    const json &modules = member(here, layers), &others = member(there, layers);
    for (const json *side : {&modules, &others})
      if (side->is_object())
        for (const auto &[name, module] : side->items())
          compareModule(name, member(modules, name), member(others, name));
  }

private:
  void compareModule(const std::string &name, const json &here, const json &there) const {
    if (member(here, "quant_algo") != member(there, "quant_algo") ||
        contradict(here, there, "group_size"))
      differ(fmt::format("{}.{}", layers, printable(name)), here, there);
  }

  [[noreturn]] void differ(const std::string &key, const json &here, const json &there) const {
    throw Error("two files of the checkpoint contradict each other",
                fmt::format("{}, quantization.{}", quant.file, key),
                fmt::format("found {} here and {} in {}, quantization_config", jsonText(here),
                            jsonText(there), config.file),
                "take both files from the release that the tensors are from");
  }

  static constexpr const char *layers = "quantized_layers";
  const JsonText &quant, &config;
};

} // namespace

void readHfQuantConfig(const JsonText &quant, const JsonText &config, ModelConfig &model,
                       Findings &findings) {
  constexpr JsonLimits limits = {.bytes = 16 << 20, .depth = 16};
  json document = parseJson(quant.text, quant.file, limits);
  const json empty = json::object();
  ConfigReader top(document.is_object() ? document : empty, quant.file, "", findings);
  const json *object = top.find("quantization");
  if (!object || !object->is_object())
    top.fail("quantization", fmt::format("found {}, an object is expected",
                                         object ? jsonText(*object) : "nothing"));
  top.requireString("quant_method", {"modelopt"});
  top.inert({"producer"});
  top.reportUnknown();
  ConfigReader reader(*object, quant.file, "quantization.", findings);
  ModelConfig promised;
  readModelopt(reader, promised, findings);
  reader.reportUnknown();

  json whole = parseJson(config.text, config.file, limits);
  const json &there = member(whole, "quantization_config");
  if (there.is_object())
    return Comparison(quant, config).compare(*object, there);
  model.projectionEncoding = promised.projectionEncoding;
  model.expertEncoding = promised.expertEncoding;
}

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
