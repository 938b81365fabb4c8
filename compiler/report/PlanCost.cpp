#include "compiler/report/PlanCost.h"

#include "runtime/base/Error.h"
#include "runtime/plan/List.h"
#include "runtime/plan/Objects.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {

using nlohmann::ordered_json;

namespace {

constexpr int64_t registerGranule = 8; // of a thread

int64_t roundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

/// An empty name: the first.
const plan::Target &targetOf(const plan::PlanFile &file, const std::string &name) {
  const plan::Target *target =
      name.empty() ? file.tables().targets()->Get(0) : plan::findTarget(file.tables(), name);
  if (!target)
    plan::refuseTarget(file.tables(), file.name(), name, "--target");
  return *target;
}

/// Costs of the launches of one kind.
class KindCost {
public:
  KindCost(const plan::PlanFile &file, const plan::Target &target, const plan::Bucket &bucket,
           const plan::Launch &launch, const StepShape &step)
      : file(file), bucket(bucket), launch(launch), step(step),
        kernel(*file.tables().kernels()->Get(launch.kernel())),
        object(plan::requireObject(file, kernel, target)) {
    std::tie(chipTarget, chip) = findChip(object.chip()->str());
  }

  ordered_json json() {
    Work work = launchWork(file.tables(), launch, step);
    Traffic traffic = launchTraffic(file.tables(), bucket, launch, step);
    uint64_t page = file.tables().cache()->page_tokens();
    uint64_t blocks = (step.context + step.rows + page - 1) / page;
    uint64_t items = plan::itemsAlong(*launch.grid_x(), blocks) *
                     plan::itemsAlong(*launch.grid_y(), blocks) *
                     plan::itemsAlong(*launch.grid_z(), blocks);
    ordered_json out = {{"kernel", kernel.name()->str()},
                        {"family", kernel.family() ? kernel.family()->str() : ""},
                        {"chip", object.chip()->str()},
                        {"weight_and_cache_bytes", work.bytes},
                        {"read_bytes", traffic.read},
                        {"written_bytes", traffic.written},
                        {"operations", work.operations},
                        {"items", items},
                        {"threads", object.threads()},
                        {"registers", object.registers()},
                        {"shared_bytes", object.shared_bytes()}};
    out["instructions"] = instructions();
    if (!chip)
      return out;
    Occupancy occupancy = occupancyOf(chip->facts, object);
    out["items_of_unit"] = occupancy.items;
    out["occupancy_limit"] = occupancy.limit;
    addBound(out, work, out["instructions"].contains("matrix"));
    return out;
  }

private:
  ordered_json instructions() const {
    ordered_json out = ordered_json::object();
    if (!chipTarget)
      return out;
    std::span<const std::byte> code = file.sectionBytes(object.section());
    auto counted = chipTarget->mnemonics(kernel.name()->str(), code);
    for (const auto &[pipe, count] : countPipes(chipTarget->pipes(), counted))
      out[pipe] = count;
    return out;
  }

  /// The larger of two least times: that of the bytes that no cache holds, and of the operations.
  void addBound(ordered_json &out, const Work &work, bool usesMatrix) const {
    const ChipFacts &facts = chip->facts;
    double peak = usesMatrix ? facts.fp16 : facts.fp32;
    double memory = facts.bytesPerSecond > 0 ? work.bytes / facts.bytesPerSecond : 0;
    double arithmetic = peak > 0 ? work.operations / peak : 0;
    out["memory_seconds"] = memory;
    out["arithmetic_seconds"] = arithmetic;
    out["bound"] = memory == 0 && arithmetic == 0 ? "none"
                   : memory >= arithmetic         ? "memory"
                   : usesMatrix                   ? "FP16 products"
                                                  : "FP32 operations";
    out["bound_seconds"] = std::max(memory, arithmetic);
  }

  const plan::PlanFile &file;
  const plan::Bucket &bucket;
  const plan::Launch &launch;
  const StepShape &step;
  const plan::Kernel &kernel;
  const plan::CodeObject &object;
  const Target *chipTarget = nullptr;
  const Chip *chip = nullptr;
};

} // namespace

Occupancy occupancyOf(const ChipFacts &facts, const plan::CodeObject &object) {
  Occupancy occupancy;
  auto allow = [&](int64_t whole, int64_t each, const char *what) {
    if (whole <= 0 || each <= 0)
      return;
    int64_t items = whole / each;
    if (occupancy.limit.empty() || items < occupancy.items)
      occupancy = {items, what};
  };
  allow(facts.unitThreads, object.threads(), "threads");
  allow(facts.registers, roundUp(object.registers(), registerGranule) * object.threads(),
        "registers");
  allow(facts.unitSharedBytes,
        object.shared_bytes() ? int64_t(object.shared_bytes()) + facts.reservedBytes : 0,
        "shared memory");
  allow(facts.unitItems, 1, "items");
  return occupancy;
}

std::map<std::string, unsigned> countPipes(llvm::ArrayRef<PipeRule> rules,
                                           const std::map<std::string, unsigned> &mnemonics) {
  std::map<std::string, unsigned> counts;
  for (const auto &[mnemonic, count] : mnemonics) {
    const PipeRule *best = nullptr;
    for (const PipeRule &rule : rules)
      if (llvm::StringRef(mnemonic).starts_with(rule.prefix) &&
          (!best || rule.prefix.size() > best->prefix.size()))
        best = &rule;
    counts[best ? best->pipe.str() : "other"] += count;
  }
  return counts;
}

StepShape defaultCostShape(const plan::PlanFile &file) {
  StepShape shape;
  const plan::Target &target = targetOf(file, "");
  // A step of one token, where the model has positions for it and one before.
  uint64_t positions = file.tables().model()->max_positions();
  shape.context = std::clamp<uint64_t>(positions, 2, 8193) - 1;
  shape.requests = target.buckets()->Get(0)->rows();
  return shape;
}

ordered_json costJson(const plan::PlanFile &file, const std::string &name, const StepShape &step) {
  const plan::Target &target = targetOf(file, name);
  const plan::Bucket *bucket = bucketFor(target, step);
  if (!bucket)
    throw Error(fmt::format("the plan runs no step of {} rows", step.allRows()), "--shape",
                fmt::format("its largest bucket has {} rows",
                            target.buckets()->Get(target.buckets()->size() - 1)->rows()),
                "ask for fewer rows, or compile with larger --buckets", ExitCode::Usage);
  if (uint64_t most = file.tables().model()->max_positions();
      step.context >= most || step.rows > most - step.context)
    throw Error(fmt::format("no sequence has {} tokens and {} more", step.context, step.rows),
                "--shape", fmt::format("the model has {} positions", most),
                "ask for a shorter context", ExitCode::Usage);
  ordered_json out = {{"plan", file.name()},           {"target", target.name()->str()},
                      {"chip", target.chip()->str()},  {"shape", shapeName(step)},
                      {"bucket_rows", bucket->rows()}, {"kinds", ordered_json::array()}};
  std::map<std::pair<std::string, uint32_t>, size_t> known; // by kind and kernel
  for (const plan::Launch *launch : plan::list(bucket->launches())) {
    std::string kind = kindOf(file.tables(), *launch);
    auto [entry, isNew] = known.try_emplace({kind, launch->kernel()}, out["kinds"].size());
    if (isNew) {
      ordered_json row = {{"kind", kind}, {"launches", 0}};
      row.update(KindCost(file, target, *bucket, *launch, step).json());
      out["kinds"].push_back(std::move(row));
    }
    ordered_json &row = out["kinds"][entry->second];
    row["launches"] = row["launches"].get<unsigned>() + 1;
  }
  double seconds = 0;
  for (const ordered_json &row : out["kinds"])
    seconds += row.value("bound_seconds", 0.0) * row["launches"].get<double>();
  out["bound_seconds"] = seconds;
  return out;
}

std::string costText(const ordered_json &cost) {
  std::string out = fmt::format(
      "{} for {}, step {} in the bucket of {} rows; of one launch each:\n{:<20} {:>4} {:>9} {:>9} "
      "{:>9} {:>9} {:>7} {:>7} {:>5} {:>9}  {}\n",
      cost["plan"].get<std::string>(), cost["chip"].get<std::string>(),
      cost["shape"].get<std::string>(), cost["bucket_rows"].get<unsigned>(), "kind", "x", "MB",
      "KB read", "KB wrote", "MFLOP", "items", "threads", "regs", "of a unit", "bound");
  for (const ordered_json &row : cost["kinds"]) {
    std::string unit = "not known", bound = "not known";
    if (int64_t items = row.value("items_of_unit", int64_t(0)); items > 0)
      unit = std::to_string(items);
    if (row.contains("bound"))
      bound = fmt::format("{:.2f} us, {}", row["bound_seconds"].get<double>() * 1e6,
                          row["bound"].get<std::string>());
    out += fmt::format(
        "{:<20} {:>4} {:>9.3f} {:>9.1f} {:>9.1f} {:>9.2f} {:>7} {:>7} {:>5} {:>9}  {}\n",
        row["kind"].get<std::string>(), row["launches"].get<unsigned>(),
        row["weight_and_cache_bytes"].get<double>() / 1e6, row["read_bytes"].get<double>() / 1e3,
        row["written_bytes"].get<double>() / 1e3, row["operations"].get<double>() / 1e6,
        row["items"].get<uint64_t>(), row["threads"].get<unsigned>(),
        row["registers"].get<unsigned>(), unit, bound);
  }
  out += fmt::format(
      "{:.1f} us for all launches at least\n\ninstructions, as they stand in the code:\n",
      cost["bound_seconds"].get<double>() * 1e6);
  for (const ordered_json &row : cost["kinds"]) {
    std::vector<std::string> counts;
    for (const auto &[pipe, count] : row["instructions"].items())
      counts.push_back(fmt::format("{} {}", pipe, count.get<unsigned>()));
    out += fmt::format("{:<20} {}\n", row["kind"].get<std::string>(),
                       counts.empty() ? "not known: no disassembler here"
                                      : fmt::format("{}", fmt::join(counts, ", ")));
  }
  return out;
}

} // namespace m3c
