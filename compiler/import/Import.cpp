#include "compiler/import/Import.h"

#include "models/minimax_m3/QuantizationConfig.h"
#include "runtime/base/Error.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {
namespace {

constexpr const char *drafterFolder = "dspark";

std::string_view textOf(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()};
}

void readConfig(const ModelFolder &folder, ImportedModel &model) {
  MappedFile file = folder.open("config.json");
  model.config = parseModelConfig(textOf(file), file.name(), model.findings);
  if (!folder.has("hf_quant_config.json"))
    return;
  MappedFile quant = folder.open("hf_quant_config.json");
  readHfQuantConfig({quant.name(), textOf(quant)}, {file.name(), textOf(file)}, model.config,
                    model.findings);
}

/// A part has other shapes than the checkpoint's tensors.
void takePart(const ImportOptions &options, ImportedModel &model) {
  if (options.ranks == 1 && options.layers == 0)
    return;
  if (model.checkpoint->hasTensors())
    throw Error("a part of a checkpoint cannot be compiled", model.folder,
                "--shard and --layers are for measuring, with made-up weights",
                "give a folder with config.json alone");
  model.config = shardOf(model.config, options.ranks);
  if (options.layers != 0)
    model.config = firstLayers(model.config, options.layers);
}

void readTokenizer(const ModelFolder &folder, ImportedModel &model) {
  if (!folder.has("tokenizer.json")) {
    if (model.checkpoint->hasTensors())
      model.findings.warnings.push_back(
          fmt::format("{} does not exist: the model takes and gives token ids only",
                      folder.pathOf("tokenizer.json")));
    return;
  }
  MappedFile file = folder.open("tokenizer.json");
  auto tokenizer = text::Tokenizer::parse(textOf(file), file.name(), uint32_t(model.config.vocab));
  for (const std::string &note : tokenizer.notes())
    model.findings.notes.push_back(note);
  model.generation = text::loadTextConfig(folder, tokenizer);
}

/// The drafter has its own folder with its own index. Its headers are checked and counted.
void countDrafter(const ModelFolder &folder, Findings &findings) {
  if (!folder.has(drafterFolder))
    return;
  Checkpoint drafter(folder.subfolder(drafterFolder));
  Findings::LeftOut &sum = findings.leftOut["drafter"];
  for (const auto &[name, tensor] : drafter.tensors()) {
    ++sum.tensors;
    sum.bytes += tensor.entry->byteCount();
  }
  for (const std::string &warning : drafter.warnings())
    findings.warnings.push_back(warning);
}

/// "a, b, c and 5 more".
std::string namesText(const std::vector<std::string> &names) {
  constexpr size_t shown = 8;
  size_t count = std::min(shown, names.size());
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + long(count), ", "));
  if (names.size() > count)
    text += fmt::format(" and {} more", names.size() - count);
  return text;
}

void reportUnknown(const ImportOptions &options, const std::string &folder, Findings &findings) {
  auto report = [&](const char *what, const std::vector<std::string> &names) {
    if (names.empty())
      return;
    if (options.strict)
      throw Error(fmt::format("{}: unknown {} refused by --strict", folder, what), folder,
                  namesText(names), "leave out --strict to go on without them");
    findings.warnings.push_back(fmt::format("{}: {} unknown {}, not used: {}", folder, names.size(),
                                            what, namesText(names)));
  };
  report("configuration keys", findings.unknownKeys);
  report("tensors", findings.unknownTensors);
}

} // namespace

ImportedModel importModel(const std::filesystem::path &path, const ImportOptions &options) {
  ImportedModel model;
  ModelFolder folder(path);
  model.folder = folder.path();
  readConfig(folder, model);
  model.checkpoint = std::make_shared<const Checkpoint>(folder);
  const Checkpoint &checkpoint = *model.checkpoint;
  takePart(options, model);
  model.digests = CheckpointDigests::of(checkpoint);
  for (const std::string &warning : checkpoint.warnings())
    model.findings.warnings.push_back(warning);
  model.weights = buildWeightMap(model.config, &checkpoint, model.findings);
  readTokenizer(folder, model);
  countDrafter(folder, model.findings);
  reportUnknown(options, model.folder, model.findings);
  return model;
}

} // namespace m3c
