// `m3c capacity`: how many sequences of what length fit on which chips.
#include "compiler/import/Import.h"
#include "compiler/report/Capacity.h"
#include "passes/targets/common/Accelerators.h"
#include "runtime/base/Error.h"
#include "runtime/base/MappedFile.h"
#include "tools/common/Numbers.h"
#include "tools/m3c/Commands.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>

namespace m3c {
namespace {

struct CapacityOptions {
  std::string model;
  std::vector<std::string> chips = {"b300"};
  std::vector<int64_t> counts = {4};
  std::vector<std::string> parallel;
  std::vector<int64_t> contexts = {262144};
  std::vector<std::string> caches;
  double memory = 0;
  double usable = 0.95;
  bool json = false;
};

// A folder is imported; a file is a config.json whose quantization_config gives the storage.
ModelFootprint readFootprint(const std::string &path) {
  if (std::filesystem::is_directory(path)) {
    ImportedModel model = importModel(path);
    std::filesystem::path folder(path);
    std::string name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
    return footprintOf(name, model.config, model.weights, model.findings);
  }
  MappedFile file = MappedFile::open(path);
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  Findings findings;
  ModelConfig config = parseModelConfig(text, path, findings);
  return footprintOf(path, config, buildWeightMap(config, nullptr, findings), findings);
}

double memoryOf(const std::string &name, const CapacityOptions &options) {
  if (options.memory > 0)
    return options.memory;
  if (const Accelerator *chip = findAccelerator(name))
    return double(chip->memoryBytes);
  std::vector<std::string_view> known;
  for (const Accelerator &chip : accelerators())
    known.push_back(chip.name);
  throw Error(fmt::format("unknown chip '{}'", name), "--chip", "",
              fmt::format("choose one of {}, or give --memory BYTES", fmt::join(known, ", ")),
              ExitCode::Usage);
}

std::vector<std::string> cachesOf(const CapacityOptions &options) {
  if (options.caches.empty())
    return {""};
  if (options.caches == std::vector<std::string>{"all"})
    return cacheTypes();
  return options.caches;
}

std::vector<CapacityRow> allRows(const std::vector<ModelFootprint> &models,
                                 const CapacityOptions &options) {
  std::vector<CapacityRow> rows;
  for (const ModelFootprint &model : models)
    for (const std::string &cache : cachesOf(options))
      for (const std::string &chip : options.chips)
        for (int64_t count : options.counts) {
          std::vector<std::string> parallel = options.parallel;
          if (parallel.empty())
            parallel = {fmt::format("dep{}", count)};
          for (const std::string &spread : parallel)
            for (int64_t context : options.contexts)
              rows.push_back(capacityRow(model, {chip, memoryOf(chip, options), options.usable,
                                                 count, parseParallelism(spread), context, cache}));
        }
  return rows;
}

int runCapacity(const CapacityOptions &options) {
  std::vector<ModelFootprint> models = builtInFootprints();
  if (!options.model.empty())
    models = {readFootprint(options.model)};
  std::vector<CapacityRow> rows = allRows(models, options);
  if (options.json)
    fmt::print("{}\n", capacityJson(models, rows).dump(1));
  else
    fmt::print("{}", capacityText(models, rows));
  return 0;
}

} // namespace

std::function<int()> setUpCapacity(CLI::App &app) {
  auto options = std::make_shared<CapacityOptions>();
  app.add_option("MODEL", options->model,
                 "model folder or config.json; M3.1 and M3 at full size when absent");
  app.add_option("--chip", options->chips, "chips, for instance b300 h200")->delimiter(',');
  app.add_option("--count", options->counts, "numbers of chips")
      ->delimiter(',')
      ->check(within(int64_t(1), int64_t(1 << 20)));
  app.add_option("--parallel", options->parallel,
                 "depN (data-parallel attention, expert parallel), tpN or tpNdpM; dep<count> when "
                 "absent")
      ->delimiter(',');
  app.add_option("--context", options->contexts, "tokens of each sequence")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(within(int64_t(1), int64_t(1) << 40));
  app.add_option("--kv", options->caches,
                 "cache storage: f32, bf16, fp8, nvfp4, or all; the model's default when absent")
      ->delimiter(',');
  app.add_option("--memory", options->memory, "bytes of one chip instead of the table's")
      ->check(within(1.0, 1e18));
  app.add_option("--usable", options->usable, "share of the memory that may be used")
      ->check(within(0.01, 1.0));
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return runCapacity(*options); };
}

} // namespace m3c
