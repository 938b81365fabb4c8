#include "compiler/driver/Compile.h"

#include "compiler/driver/Interrupt.h"
#include "compiler/driver/Kernels.h"
#include "compiler/driver/Lowering.h"
#include "compiler/driver/Manifest.h"
#include "compiler/planfile/PlanBuilder.h"
#include "runtime/base/ContentCache.h"
#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/Log.h"
#include "runtime/plan/List.h"
#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {

namespace {

using Clock = std::chrono::steady_clock;

class Compiler {
public:
  explicit Compiler(const CompileOptions &given)
      : options(given), progress(given.progress),
        cache(given.cacheFolder ? std::filesystem::path(*given.cacheFolder)
                                : ContentCache::defaultFolder()) {}

  CompileResult run() {
    auto begun = Clock::now();
    checkOptions();
    stage("reading headers", "", [&] { model = importModel(options.checkpoint, importOptions()); });
    for (const std::string &warning : model.findings.warnings)
      log::warning("{}", warning);
    result.warnings = model.findings.warnings;
    warnUninspected();
    warnShared();
    cacheChoice = chooseCache(options, model);
    result.cacheRule =
        fmt::format("cache {}, grid {}: {}", cacheChoice.type, cacheChoice.grid, cacheChoice.why);
    // A dump or a dry run wants the passes to run.
    bool mayUseCache = !options.dryRun && options.dumpAfter.empty();
    std::optional<std::vector<std::byte>> known;
    if (mayUseCache)
      known = cache.load(planKey());
    std::vector<std::byte> bytes = known ? std::move(*known) : build();
    result.fromCache = known.has_value();
    if (!bytes.empty() && !options.schedule.empty())
      warnSpills(plan::PlanFile::fromBytes(bytes, options.output));
    result.planBytes = bytes.size();
    if (!options.dryRun)
      stage("writing the plan", options.output, [&] { publish(bytes); });
    if (mayUseCache && !result.fromCache)
      cache.store(planKey(), bytes);
    progress.finish();
    result.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    return std::move(result);
  }

private:
  template <typename Work> void stage(const std::string &name, const std::string &item, Work work) {
    checkInterrupted();
    progress.stage(name);
    progress.update(0, item);
    auto begun = Clock::now();
    work();
    addTime(name, item, std::chrono::duration<double>(Clock::now() - begun).count());
  }

  ImportOptions importOptions() const {
    ImportOptions import{options.strict, 1, options.layers};
    if (options.shard.empty())
      return import;
    std::string_view digits = std::string_view(options.shard);
    bool named = digits.starts_with("tp");
    digits.remove_prefix(named ? 2 : 0);
    auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), import.ranks);
    if (!named || code != std::errc() || end != digits.data() + digits.size() || import.ranks < 1)
      throw Error(fmt::format("unknown shard '{}'", options.shard), "--shard", "",
                  "write tp and the number of ranks, as in tp4", ExitCode::Usage);
    return import;
  }

  void addTime(const std::string &name, const std::string &item, double seconds) {
    result.times.push_back({name, item, seconds});
  }

  void checkOptions() {
    checkDisabled(options.disabledPasses);
    checkDumped(options.dumpAfter);
    checkBuckets();
    chooseChips();
    chooseActivations();
  }

  void warnShared() {
    if (!sharedDefault)
      return;
    warn(fmt::format("activations={}: {}; --numerics says it, or compile a plan for each target",
                     options.activations, activationsRule));
  }

  /// Tables and recorded graphs grow with each bucket, the arena with its rows.
  void checkBuckets() const {
    constexpr int64_t mostRows = 65536;
    constexpr size_t mostBuckets = 64;
    const std::vector<int64_t> &rows = options.buckets;
    if (!rows.empty() && (rows.front() < 1 || rows.back() > mostRows || rows.size() > mostBuckets ||
                          !std::ranges::is_sorted(rows, std::less_equal<int64_t>())))
      throw Error(
          fmt::format("--buckets {} cannot be", fmt::join(rows, ",")), "--buckets",
          fmt::format("row counts rise strictly, from 1 to {} at most; there are {} at most",
                      mostRows, mostBuckets),
          "write them as in --buckets 1,8,64", ExitCode::Usage);
  }

  /// A plan whose machine code nothing has looked at says so, here and in its manifest.
  void warnUninspected() {
    for (const auto &[target, chip] : chips)
      if (Inspector inspector = target->inspector(); inspector.name.empty())
        warn(fmt::format("code for {}: {}", chip.name, inspector.absence));
  }

  /// Kernels that choices of --schedule make keep values in memory are built, but not silently.
  /// Only of chips whose objects say how many registers they have: on others that is usual.
  void warnSpills(const plan::PlanFile &file) {
    std::set<std::string> families;
    for (const std::string &choice : options.schedule)
      families.insert(choice.substr(0, choice.find('.')));
    struct Spills {
      unsigned kernels = 0;
      uint32_t most = 0;
    };
    std::map<std::pair<std::string, std::string>, Spills> found; // by family and chip
    for (const plan::Kernel *kernel : plan::list(file.tables().kernels()))
      for (const plan::CodeObject *object : plan::list(kernel->objects()))
        if (families.contains(kernel->family()->str()) && object->registers() &&
            object->spill_bytes()) {
          Spills &spills = found[{kernel->family()->str(), object->chip()->str()}];
          ++spills.kernels;
          spills.most = std::max(spills.most, object->spill_bytes());
        }
    for (const auto &[where, spills] : found)
      warn(fmt::format("{} for {}: {} {} up to {} bytes of each thread in memory for want of "
                       "registers, with the choices of --schedule",
                       where.first, where.second, spills.kernels,
                       spills.kernels == 1 ? "kernel keeps" : "kernels keep", spills.most));
  }

  void warn(const std::string &text) {
    log::warning("{}", text);
    result.warnings.push_back(text);
  }

  /// One function for all chips of a plan: what is asked for, or the first target's default.
  void chooseActivations() {
    activationsRule = "as asked for by --numerics activations";
    if (options.activations.empty()) {
      options.activations = chips.front().target->activations().front();
      activationsRule = "the target's default";
      noteShared();
    }
    for (const auto &[target, chip] : chips)
      if (std::vector<std::string> choices = target->activations();
          !std::ranges::count(choices, options.activations))
        throw Error(fmt::format("unknown activations '{}'", options.activations), "--numerics",
                    fmt::format("{} has {}", target->name().str(), fmt::join(choices, ", ")),
                    "write activations= and one of these", ExitCode::Usage);
  }

  /// A target whose own default is another one does not lose it silently.
  void noteShared() {
    const Target *first = chips.front().target;
    for (const auto &[target, chip] : chips)
      if (std::string own = target->activations().front(); own != options.activations) {
        activationsRule = fmt::format(
            "the default of {}, the first target; {} alone has {}, but a plan has one for all",
            first->name().str(), target->name().str(), own);
        sharedDefault = true;
        return;
      }
  }

  void chooseChips() {
    if (options.targets.empty())
      options.targets.push_back(allTargets().front()->name().str());
    for (const std::string &name : options.targets) {
      const Target *target = &requireTarget(name);
      for (const Chip &chip : target->chips())
        if ((options.chips.empty() || std::ranges::count(options.chips, chip.name)) &&
            std::ranges::none_of(chips, [&](auto &known) { return known.chip.name == chip.name; }))
          chips.push_back({target, chip});
    }
    for (const std::string &name : options.chips)
      if (std::ranges::none_of(chips, [&](auto &known) { return known.chip.name == name; }))
        throw Error(
            fmt::format("the target {} has no chip '{}'", fmt::join(options.targets, ","), name),
            "--chip", "", "`m3c targets` lists them", ExitCode::Usage);
    for (const std::string &name : options.targets)
      if (std::ranges::none_of(chips, [&](auto &known) { return known.target->name() == name; }))
        throw Error(fmt::format("no chip of the target {} is chosen", name), "--target, --chip",
                    fmt::format("--chip names {}", fmt::join(options.chips, ",")),
                    fmt::format("leave out --target {}, or name a chip of it, too", name),
                    ExitCode::Usage);
  }

  // Everything that the bytes of the plan depend on.
  CacheKey planKey() const {
    CacheKey key("plan");
    key.add("checkpoint", model.digests.all())
        .add("cache", cacheChoice.type + " " + cacheChoice.grid + ": " + cacheChoice.why)
        .add("activations", options.activations + ": " + activationsRule)
        .add("part", fmt::format("{} {}", options.shard, options.layers))
        .add("buckets", fmt::format("{}", fmt::join(options.buckets, ",")))
        .add("sources", options.keepSources ? "kept" : "")
        .add("program", programIdentity());
    for (const auto &[target, chip] : chips) {
      key.add("chip", chip.name + " " + target->toolchain(chip) + " " + target->inspector().name);
      if (auto [other, row] = findChip(target->fallback()); other)
        key.add("fallback", row->name + " " + other->toolchain(*row));
    }
    for (const std::string &choice : options.schedule)
      key.add("schedule", choice);
    for (const std::string &pass : options.disabledPasses)
      key.add("disabled", pass);
    return key;
  }

  std::vector<std::byte> build() {
    Lowering lowering(options);
    stage("building the graph", "", [&] { lowering.buildGraph(model, cacheChoice); });
    progress.stage("passes", lowering.stepCount(chips.size()));
    lowering.runPasses(chips, [&](const std::string &item, double seconds) {
      progress.update(++passesRun, item);
      addTime("passes", item, seconds);
    });
    stage("printing kernels", "", [&] { lowering.printKernels(); });
    forecast(lowering);
    if (options.dryRun)
      return {};
    for (size_t i = 0; i < chips.size(); ++i)
      buildChip(lowering, i);
    std::vector<std::byte> bytes;
    stage("assembling the plan", "",
          [&] { bytes = lowering.plan(model, manifest(lowering)).bytes(); });
    return bytes;
  }

  std::string manifest(const Lowering &lowering) const {
    nlohmann::ordered_json decisions = nlohmann::ordered_json::array();
    decisions.push_back(
        decision("cache", cacheChoice.type + ", grid " + cacheChoice.grid, cacheChoice.why));
    decisions.push_back(decision("activations", options.activations, activationsRule));
    for (const auto &entry : lowering.decisions())
      decisions.push_back(entry);
    for (const auto &[target, chip] : chips)
      for (const Target::Remark &remark : target->remarks(chip))
        decisions.push_back(decision(remark.what, remark.choice, remark.why));
    decisions.push_back(decision("schedules", "by shape, from the target's table",
                                 options.schedule.empty() ? "none was given by --schedule"
                                                          : "but for the choices below"));
    for (const std::string &choice : options.schedule)
      decisions.push_back(decision("schedule", choice, "as asked for by --schedule"));
    if (!options.shard.empty() || options.layers)
      decisions.push_back(decision(
          "part",
          fmt::format("{}, {}", options.shard.empty() ? "all ranks" : options.shard,
                      options.layers ? fmt::format("{} layers", options.layers)
                                     : std::string("all layers")),
          "as asked for by --shard and --layers: for measuring, no rank hears of another"));
    for (const std::string &pass : options.disabledPasses)
      decisions.push_back(decision("pass " + pass, "not run", "as asked for by --disable-pass"));
    return manifestText(options, model, cacheChoice, chips, decisions);
  }

  void forecast(const Lowering &lowering) {
    result.forecast = lowering.forecast();
    for (size_t i = 0; i < chips.size(); ++i)
      for (const KernelText &kernel : lowering.kernels(i))
        if (!cache.load(kernelKey(kernel))) {
          ++result.forecast.objectsToBuild;
          result.forecast.buildSeconds += kernel.target->secondsPerKernel() / threads();
        }
  }

  unsigned threads() const {
    return options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  }

  void buildChip(Lowering &lowering, size_t index) {
    const std::vector<KernelText> &kernels = lowering.kernels(index);
    const Chip &chip = chips[index].chip;
    progress.stage("compiling for " + chip.name, kernels.size());
    auto begun = Clock::now();
    std::vector<BuildResult> built =
        buildKernels(kernels, cache, threads(),
                     [&](size_t done, const std::string &name) { progress.update(done, name); });
    double wall = std::chrono::duration<double>(Clock::now() - begun).count();
    for (const BuildResult &one : built)
      ++(one.seconds > 0 ? result.objectsBuilt : result.objectsFromCache);
    addTime("compiling kernels", chip.name, wall);
    for (size_t i = 0; i < built.size(); ++i)
      kernelTimes.push_back({kernels[i].name, kernels[i].chip.name, built[i].seconds});
    lowering.addObjects(index, built);
  }

  void publish(const std::vector<std::byte> &bytes) {
    FileWriter file(options.output);
    file.write(bytes);
    checkInterrupted();
    file.publish();
  }

  CompileOptions options;
  Progress progress;
  ContentCache cache;
  InterruptGuard guard;
  CompileResult result;
  ImportedModel model;
  CacheChoice cacheChoice;
  std::string activationsRule; // why the activations are what they are
  bool sharedDefault = false;  // they are not what each target would have alone
  std::vector<ChipTarget> chips;
  uint64_t passesRun = 0;
  std::vector<StageTime> kernelTimes;
};

} // namespace

CompileResult compile(const CompileOptions &options) { return Compiler(options).run(); }

} // namespace m3c
