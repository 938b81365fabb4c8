#include "compiler/driver/Lowering.h"

#include "compiler/driver/Register.h"
#include "dialects/plan/Plan.h"
#include "dialects/tile/Tile.h"
#include "models/minimax_m3/GraphBuilder.h"
#include "passes/kernel/StepLowering.h"
#include "runtime/base/FileWriter.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace m3c {

namespace {

std::string printed(mlir::Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  return text;
}

} // namespace

Lowering::Lowering(const CompileOptions &options) : options(options) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

void Lowering::buildGraph(const ImportedModel &model, const CacheChoice &cache) {
  GraphOptions graphOptions;
  graphOptions.kv = *m3::symbolizeCacheStorage(cache.type);
  graphOptions.grid = *m3::symbolizeCacheGrid(cache.grid);
  graphOptions.activations = *m3::symbolizeActivations(options.activations);
  graph = m3c::buildGraph(context, model.config, model.weights, graphOptions);
}

uint64_t Lowering::stepCount(size_t chips) const {
  return graphSteps(options.buckets).size() + chips * chipSteps("", {}).size();
}

void Lowering::runPasses(const std::vector<ChipTarget> &chips,
                         const std::function<void(const std::string &, double)> &after) {
  runOn(*graph, graphSteps(options.buckets), "", after);
  for (const auto &[target, chip] : chips) {
    variants.push_back({target, chip, graph->clone(), {}});
    try {
      runOn(*variants.back().module, chipSteps(chip.name, options.schedule), chip.name, after);
    } catch (const Error &error) {
      refuseSchedule(error, chip.name);
      throw;
    }
  }
  checkSchedule();
}

/// A kernel that the target's own table shapes passes; where choices were given, they are at fault.
void Lowering::refuseSchedule(const Error &error, const std::string &chip) const {
  if (options.schedule.empty() || error.code() == ExitCode::Usage)
    return;
  std::string rule = error.why().substr(0, error.why().find('\n'));
  if (size_t type = rule.find(" '!"); type != std::string::npos) { // the rest is one of the IR
    rule = rule.substr(0, type);
    if (rule.ends_with(", found"))
      rule.resize(rule.size() - std::string(", found").size());
  }
  std::vector<std::string> parts;
  for (const std::string &given : options.schedule) {
    size_t dot = given.find('.'), equals = given.find('=');
    parts.push_back(fmt::format("{} = {} for the family {}",
                                given.substr(dot + 1, equals - dot - 1), given.substr(equals + 1),
                                given.substr(0, dot)));
  }
  throw Error(fmt::format("no kernel for {} can be made with {}", chip, fmt::join(parts, ", ")),
              "--schedule", rule,
              "choose other numbers; `m3c explain` shows those of a plan made without them",
              ExitCode::Usage);
}

static void addChoices(mlir::ModuleOp module, FamilyChoices &choices) {
  for (auto kernel : module.getOps<tile::KernelOp>())
    for (mlir::NamedAttribute choice : kernel.getSchedule())
      if (choice.getName() != tunedMark)
        choices[kernel.getFamily().str()].insert(choice.getName().str());
}

/// Whether one of them is what "family.choice=number" names.
static bool knows(const FamilyChoices &choices, const std::string &given) {
  size_t dot = given.find('.'), equals = given.find('=');
  auto family = choices.find(given.substr(0, dot));
  return family != choices.end() &&
         family->second.contains(given.substr(dot + 1, equals - dot - 1));
}

void Lowering::checkSchedule() {
  FamilyChoices choices;
  std::vector<std::string> chips;
  for (Variant &variant : variants) {
    addChoices(*variant.module, choices);
    chips.push_back(variant.chip.name);
  }
  for (const std::string &given : options.schedule)
    if (!knows(choices, given))
      refuseChoice(given, choices, fmt::format("{}", fmt::join(chips, ", ")));
}

void Lowering::refuseChoice(const std::string &given, const FamilyChoices &choices,
                            const std::string &chips) {
  std::string family = given.substr(0, given.find('.')), has;
  if (auto found = choices.find(family); found != choices.end()) {
    has = fmt::format("kernels of the family {} for {} have {}", family, chips,
                      fmt::join(found->second, ", "));
  } else {
    std::vector<std::string> families;
    for (const auto &entry : choices)
      families.push_back(entry.first);
    has = fmt::format("families with choices for {} are {}", chips, fmt::join(families, ", "));
  }
  std::vector<std::string> others = targetsWith(given);
  std::string where = fmt::format("targets whose kernels have it: {}", fmt::join(others, ", "));
  if (others.empty())
    where = fmt::format("with this model, its cache, activations={} and the other choices no "
                        "target's kernels have it",
                        options.activations);
  throw Error(fmt::format("no kernel of this plan has the choice '{}'", given), "--schedule",
              has + "; " + where,
              others.empty() ? "leave it out; `m3c explain` lists the choices of a plan"
                             : fmt::format("leave it out, or compile with --target {}", others[0]),
              ExitCode::Usage);
}

std::vector<std::string> Lowering::targetsWith(const std::string &given) {
  std::vector<std::string> names;
  for (const auto &target : allTargets()) {
    mlir::OwningOpRef<mlir::ModuleOp> module = graph->clone();
    FamilyChoices choices;
    try {
      // The first step alone makes the kernels.
      runSteps(*module, {chipSteps(target->chips().front().name, options.schedule).front()}, {});
    } catch (const Error &) { // a number that no kernel can be made with
      continue;
    }
    addChoices(*module, choices);
    if (knows(choices, given))
      names.push_back(target->name().str());
  }
  return names;
}

void Lowering::runOn(mlir::ModuleOp module, const std::vector<PassStep> &steps,
                     const std::string &prefix,
                     const std::function<void(const std::string &, double)> &after) {
  PassRunOptions run;
  run.disabled = options.disabledPasses;
  run.after = [&](const PassStep &step, mlir::ModuleOp result, double seconds) {
    after(prefix.empty() ? step.name : prefix + ": " + step.name, seconds);
    dump(step, result, prefix);
  };
  runSteps(module, steps, run);
}

void Lowering::dump(const PassStep &step, mlir::ModuleOp module, const std::string &prefix) {
  auto asked = [&](const std::string &name) { return std::ranges::count(options.dumpAfter, name); };
  if (!asked("all") && !asked(step.name))
    return;
  std::error_code error;
  std::filesystem::create_directories(options.dumpFolder, error);
  if (error)
    throw Error("cannot make the folder " + options.dumpFolder, "--dump-dir", error.message(),
                "choose another place");
  std::string name =
      fmt::format("{:02}-{}{}{}.mlir", ++dumped, prefix, prefix.empty() ? "" : "-", step.name);
  FileWriter file(std::filesystem::path(options.dumpFolder) / name);
  file.write(printed(module) + "\n");
  file.publish();
}

void Lowering::printKernels() {
  for (Variant &variant : variants)
    variant.kernels = m3c::printKernels(*variant.module, variant.chip);
}

void Lowering::addObjects(size_t chip, const std::vector<BuildResult> &objects) {
  for (size_t i = 0; i < objects.size(); ++i) {
    const KernelText &text = variants[chip].kernels[i];
    KernelBuild &build = builds[text.name];
    // Another target may have lowered the same kernel for this chip.
    if (std::ranges::count(build.objects, text.chip.name, &KernelObject::chip))
      continue;
    build.family = text.family;
    build.params = text.params;
    std::string schedule =
        fmt::format("{}: {}", text.chip.name, text.schedule.empty() ? "no choices" : text.schedule);
    build.schedule += (build.schedule.empty() ? "" : "; ") + schedule;
    KernelLaunchShape shape = text.shape;
    shape.registers = objects[i].facts.registers;
    shape.spillBytes = uint32_t(objects[i].facts.spillBytes);
    build.objects.push_back({text.chip.name, objects[i].object, shape,
                             options.keepSources ? text.source : "", text.elements});
  }
}

PlanForecast Lowering::forecast() const {
  PlanForecast forecast;
  mlir::ModuleOp module = *variants.front().module;
  for (auto weight : module.getOps<planir::WeightBufferOp>())
    forecast.weightBytes += uint64_t(weight.getBytes());
  for (auto cache : module.getOps<planir::CacheOp>()) {
    forecast.pageBytes = uint64_t(cache.getPageBytes());
    forecast.pageTokens = uint64_t(cache.getPageTokens());
  }
  for (auto program : module.getOps<planir::ProgramOp>())
    for (auto bucket : program.getBody().front().getOps<planir::BucketOp>()) {
      ++forecast.buckets;
      forecast.arenaBytes = std::max(forecast.arenaBytes, uint64_t(*bucket.getArenaBytes()));
      forecast.arenaBytesPerBlock =
          std::max(forecast.arenaBytesPerBlock, uint64_t(*bucket.getArenaBytesPerBlock()));
      auto launches = bucket.getBody().front().getOps<planir::LaunchOp>();
      forecast.launches += unsigned(std::distance(launches.begin(), launches.end()));
    }
  std::set<std::string> names; // a kernel is built for each chip
  for (const Variant &variant : variants) {
    forecast.objects += unsigned(variant.kernels.size());
    for (const KernelText &kernel : variant.kernels)
      names.insert(kernel.name);
  }
  forecast.kernels = unsigned(names.size());
  return forecast;
}

void Lowering::keepSources(std::map<std::string, KernelBuild> &kernels,
                           std::map<std::string, std::string> &extras) const {
  for (const Variant &variant : variants)
    for (const KernelText &text : variant.kernels) {
      std::string stem = text.name + "." + text.chip.name;
      extras[stem + ".mlir"] = text.tile;
      std::string &kept = kernels[text.name].source;
      if (kept.empty())
        kept = text.source;
      else if (kept != text.source)
        extras[stem + text.target->fileSuffixes().first.str()] = text.source;
    }
  keepHeaders(extras);
}

/// The headers of each target that a kernel was lowered for, once; with several targets each has a
/// folder of its own.
void Lowering::keepHeaders(std::map<std::string, std::string> &extras) const {
  std::set<const Target *> targets;
  for (const Variant &variant : variants)
    for (const KernelText &text : variant.kernels)
      targets.insert(text.target);
  for (const Target *target : targets)
    for (const auto &[path, text] : target->deviceHeaders())
      extras[(targets.size() > 1 ? "include-" + target->name().str() : "include") + "/" + path] =
          text;
}

/// Features of which a device needs one to build the sources of a chip's kernels.
static std::vector<std::string> sourceFeatures(const std::vector<KernelText> &kernels,
                                               const Chip &chip, const SourceBuild &source) {
  bool isOwn = llvm::any_of(kernels, [&](const KernelText &kernel) {
    return llvm::any_of(kernel.patterns, [&](const std::string &pattern) {
      return llvm::is_contained(source.ownPatterns, pattern);
    });
  });
  return isOwn ? chip.features : source.features;
}

plan::PlanWriter Lowering::plan(const ImportedModel &model, std::string manifest) {
  PlanContent content{model.config, builds, {}, std::move(manifest), {}};
  for (const Variant &variant : variants) {
    content.targets.push_back({variant.target->name().str(), variant.chip.name,
                               variant.chip.features, variant.target->proof().str(),
                               *variant.module});
    if (const Chip *fallback = findChip(variant.target->fallback()).second) {
      content.targets.back().fallbackChip = fallback->name;
      content.targets.back().fallbackFeatures = fallback->features;
    }
  }
  if (options.keepSources)
    for (size_t i = 0; i < variants.size(); ++i)
      if (SourceBuild source = variants[i].target->sourceBuild(); !source.features.empty()) {
        content.targets[i].headers = variants[i].target->deviceHeaders();
        content.targets[i].buildOptions = source.options;
        content.targets[i].sourceFeatures =
            sourceFeatures(variants[i].kernels, variants[i].chip, source);
      }
  if (options.keepSources)
    keepSources(content.kernels, content.extras);
  return buildPlan(content);
}

} // namespace m3c
