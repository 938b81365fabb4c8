// `m3-bench kernel`: time of every kernel of a step, each against its own limit.
//
// In its place: the step is replayed whole and each launch of its recorded graph is timed, so that
// caches hold what they hold in real work. In a chain: launches of one kind follow each other in a
// graph of their own, each with the weights and pages of its layer, so that memory is as cold as in
// the model where there are enough layers, and no event stands between them.
#include "runtime/base/Error.h"
#include "runtime/plan/List.h"
#include "tools/common/Numbers.h"
#include "tools/m3-bench/Options.h"
#include "tools/m3-bench/Workload.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c::bench {
namespace {

struct Arguments {
  PlanOptions plan;
  uint64_t context = 128;
  uint32_t rows = 1;
  std::vector<std::string> shapes; ///< instead of the two above
  std::string timing = "auto";     ///< "place", "chain"
  std::vector<std::string> kinds;  ///< empty: all
  unsigned repeats = 0;            ///< 0: 32 for one row, 5 for more; chains 15
};

/// Launches of one kind: a label without its layer.
struct Kind {
  std::string name, family, schedule;
  std::vector<uint32_t> launches; ///< by index in the bucket
  Work work;                      ///< of all its launches in a step
  std::vector<double> seconds;    ///< of all its launches, by step
  bool isCold = false;            ///< in a chain: weights and pages come from memory
};

/// One shape of a step and what was measured at it.
class ShapeBench {
public:
  ShapeBench(const Arguments &arguments, Workload &workload, LimitSamples &limits,
             const StepShape &given)
      : arguments(arguments), workload(workload), limits(limits), shape(given) {
    bucket = bucketFor(workload.engine().target(), shape);
    if (!bucket || shape.rows > arguments.plan.chunk)
      throw Error(fmt::format("{} rows of {} sequences are not one step of this plan", shape.rows,
                              shape.requests),
                  arguments.plan.plan, "one step is timed",
                  "ask for fewer rows, or compile with larger --buckets");
    listKinds();
  }

  /// Steps before the context has grown too much: then the sequences are made anew.
  static unsigned stepsOfSequence(const StepShape &shape) { return shape.rows == 1 ? 16 : 1; }

  void runInPlace() {
    repeats = arguments.repeats ? arguments.repeats : shape.allRows() == 1 ? 32 : 5;
    std::vector<SequenceId> sequences;
    if (shape.allRows() > 1) // one row chooses top-k experts in every layer
      countExperts();
    for (unsigned done = 0; done < repeats;) {
      limits.sample();
      grow(sequences);
      workload.session().setStepTimes(
          [&](uint32_t, std::span<const double> seconds, const StepPlan &) { take(seconds); });
      UsageClock usage;
      for (unsigned i = 0; i < stepsOfSequence(shape) && done < repeats; ++i, ++done)
        workload.append(sequences, shape.rows);
      wall += usage.wallSeconds();
      cpu += usage.cpuSeconds();
      workload.session().setStepTimes(nullptr);
      release(sequences);
    }
  }

  void runChains() {
    inChains = true;
    repeats = arguments.repeats ? arguments.repeats : 15;
    std::vector<SequenceId> sequences;
    grow(sequences);
    Workload::ExpertCounts experts;
    workload.append(sequences, shape.rows, &experts);
    if (experts.size() == 1)
      shape.distinctExperts = experts[0];
    countWork();
    limits.sample();
    UsageClock usage;
    for (Kind &kind : kinds)
      timeChain(kind);
    wall = usage.wallSeconds();
    cpu = usage.cpuSeconds();
    limits.sample();
    release(sequences);
  }

  void addResults(nlohmann::ordered_json &results) const;
  std::string text() const;

private:
  static constexpr double chainSeconds = 4e-3; ///< of a chain, where it need not be longer

  void grow(std::vector<SequenceId> &sequences) {
    for (uint32_t i = 0; i < shape.requests; ++i)
      sequences.push_back(workload.grown(shape.context, shape.requests > 1));
  }
  void release(std::vector<SequenceId> &sequences) {
    for (SequenceId sequence : sequences)
      workload.session().release(sequence);
    sequences.clear();
  }

  /// Counted in a step of as many rows.
  void countExperts() {
    Workload::ExpertCounts experts;
    workload.session().release(workload.prefill(shape.allRows(), &experts));
    if (experts.size() == 1)
      shape.distinctExperts = experts[0];
    countWork();
  }

  bool isWanted(const std::string &kind) const {
    return arguments.kinds.empty() || std::ranges::count(arguments.kinds, kind);
  }

  void listKinds() {
    auto launches = plan::list(bucket->launches());
    for (uint32_t i = 0; i < launches.size(); ++i) {
      std::string name = kindOf(workload.tables(), *launches[i]);
      if (!isWanted(name))
        continue;
      const plan::Kernel &kernel = *workload.tables().kernels()->Get(launches[i]->kernel());
      Kind &kind = kindNamed(name);
      kind.family = kernel.family()->str();
      kind.schedule = kernel.schedule() ? kernel.schedule()->str() : "";
      kind.launches.push_back(i);
    }
    if (kinds.empty())
      throw Error("the plan has no such kernels", arguments.plan.plan,
                  fmt::format("{} were asked for", fmt::join(arguments.kinds, ", ")),
                  "without --kinds all are measured and listed");
    countWork();
  }

  void countWork() {
    for (Kind &kind : kinds) {
      kind.work = {};
      for (uint32_t launch : kind.launches)
        kind.work += launchWork(workload.tables(), *bucket->launches()->Get(launch), shape);
    }
  }

  Kind &kindNamed(const std::string &name) {
    auto found = std::ranges::find(kinds, name, &Kind::name);
    return found != kinds.end() ? *found
                                : kinds.emplace_back(Kind{name, "", "", {}, {}, {}, false});
  }

  void take(std::span<const double> seconds) {
    for (Kind &kind : kinds) {
      double sum = 0;
      for (uint32_t launch : kind.launches)
        sum += seconds[launch];
      kind.seconds.push_back(sum);
    }
  }

  /// Of the launches of a kind those of its last kernel: a chain has one.
  std::vector<uint32_t> chained(const Kind &kind) const {
    std::vector<uint32_t> out;
    for (uint32_t launch : kind.launches)
      if (bucket->launches()->Get(launch)->kernel() ==
          bucket->launches()->Get(kind.launches.back())->kernel())
        out.push_back(launch);
    return out;
  }

  /// Whether what the launches of a chain must read exceeds the device's last cache so far that
  /// each finds nothing of its own there.
  bool isCold(const Kind &kind) const {
    Work chain;
    for (uint32_t launch : chained(kind))
      chain += launchWork(workload.tables(), *bucket->launches()->Get(launch), shape);
    uint64_t cache = workload.engine().device().info().cacheBytes;
    return cache > 0 && chain.bytes > double(cache);
  }

  void timeChain(Kind &kind) {
    std::vector<uint32_t> launches = chained(kind);
    kind.isCold = isCold(kind);
    uint32_t round = uint32_t(launches.size());
    Session &session = workload.session();
    double each = median(session.timeLaunches(launches, std::max(2u, round + 1), 2));
    double wanted = std::clamp(chainSeconds / std::max(each, 1e-7), 2.0, 1024.0);
    uint32_t count = std::max(uint32_t(wanted), round + 1);
    kind.seconds = session.timeLaunches(launches, count, repeats);
    for (double &seconds : kind.seconds)
      seconds *= double(kind.launches.size());
  }

  uint64_t workingSet() const { return workload.workingSet(shape.context + shape.rows); }

  double least(const Kind &kind) const {
    return limits.leastSeconds(kind.work.bytes, kind.work.operations, workingSet());
  }

  std::vector<const Kind *> bySeconds() const {
    std::vector<const Kind *> sorted;
    for (const Kind &kind : kinds)
      sorted.push_back(&kind);
    std::ranges::sort(sorted, std::greater(),
                      [](const Kind *kind) { return median(kind->seconds); });
    return sorted;
  }

  const Arguments &arguments;
  Workload &workload;
  LimitSamples &limits;
  StepShape shape;
  const plan::Bucket *bucket;
  unsigned repeats = 0;
  std::vector<Kind> kinds;
  double wall = 0, cpu = 0;
  bool inChains = false;
};

void ShapeBench::addResults(nlohmann::ordered_json &results) const {
  for (const Kind *kind : bySeconds()) {
    Result result{fmt::format("{}@{}", kind->name, shapeName(shape)), "seconds", false,
                  kind->seconds};
    double seconds = median(kind->seconds);
    result.facts = {{"family", kind->family},
                    {"schedule", kind->schedule},
                    {"launches", kind->launches.size()},
                    {"seconds_each", seconds / double(kind->launches.size())},
                    {"bytes", kind->work.bytes},
                    {"operations", kind->work.operations},
                    {"limit_seconds", least(*kind)},
                    {"share_of_limit", least(*kind) / seconds},
                    {"cpu_per_thread_second", cpu / wall / workload.threads()}};
    if (inChains)
      result.facts["cold"] = kind->isCold;
    results.push_back(resultJson(result));
  }
}

std::string ShapeBench::text() const {
  double all = 0;
  for (const Kind &kind : kinds)
    all += median(kind.seconds);
  std::string text = fmt::format(
      "step     {} sequences of {} rows after {} tokens, {} repeats, {:.3f} ms in kernels; "
      "cpu/wall {:.2f}; limits of {}\n\n",
      shape.requests, shape.rows, shape.context, repeats, all * 1e3,
      cpu / wall / workload.threads(), limits.level(workingSet()));
  text += fmt::format("{:<22} {:>4} {:>10} {:>9} {:>7} {:>7} {:>9} {:>9} {:>7} {:>9} {:>8}\n",
                      "kernel", "n", "us each", "ms", "share", "spread", "MB", "GFLOP", "GB/s",
                      "GFLOP/s", "limit");
  for (const Kind *kind : bySeconds()) {
    Summary summary = summarise(kind->seconds);
    double seconds = summary.median;
    text += fmt::format("{:<22} {:>4} {:>10.2f} {:>9.3f} {:>5.1f} % {:>5.1f} % {:>9.3f} {:>9.4f} "
                        "{:>7.1f} {:>9.1f} {:>6.1f} %{}\n",
                        kind->name, kind->launches.size(),
                        seconds / double(kind->launches.size()) * 1e6, seconds * 1e3,
                        100 * seconds / all, 100 * summary.spread(), kind->work.bytes / 1e6,
                        kind->work.operations / 1e9, kind->work.bytes / seconds / 1e9,
                        kind->work.operations / seconds / 1e9, 100 * least(*kind) / seconds,
                        kind->isCold ? " cold" : "");
  }
  return text + "\n";
}

std::vector<StepShape> shapesOf(const Arguments &arguments) {
  std::vector<StepShape> shapes;
  for (const std::string &text : arguments.shapes)
    shapes.push_back(parseShape(text));
  if (shapes.empty())
    shapes.push_back({arguments.context, arguments.rows, 1, {}, 1});
  return shapes;
}

/// The largest of every shape.
Workload::Need needOf(const std::vector<StepShape> &shapes) {
  Workload::Need need;
  for (const StepShape &shape : shapes) {
    uint64_t tokens =
        shape.context + uint64_t(shape.rows) * ShapeBench::stepsOfSequence(shape) + shape.rows;
    need.tokens = std::max({need.tokens, tokens, shape.allRows()});
    need.sequences = std::max(need.sequences, shape.requests);
    need.together.push_back({shape.requests, tokens});
  }
  return need;
}

const char *notes(bool chains) {
  return chains ? "us each: of a launch in a graph of launches of its kind, one layer after the "
                  "other, cold: together they read more than the last cache holds; MB, GFLOP: the "
                  "least that all of them must read and compute\n"
                : "ms: median of all launches of the kind in a step; MB, GFLOP: the least that "
                  "they must read and compute\n";
}

int runKernel(const Arguments &arguments) {
  std::vector<StepShape> shapes = shapesOf(arguments);
  Arguments given = arguments;
  for (const StepShape &shape : shapes)
    if (!arguments.shapes.empty())
      given.plan.chunk = std::max(given.plan.chunk, shape.rows);
  Workload workload(given.plan, needOf(shapes));
  bool isHost = workload.engine().device().info().driver == "host";
  bool chains = given.timing == "chain" || (given.timing == "auto" && !isHost);
  std::unique_ptr<LimitSamples> limits =
      limitsOf(workload.engine().device(), workload.engine().target());
  nlohmann::ordered_json report = reportHead("kernel"), results = nlohmann::ordered_json::array();
  std::string tables;
  for (const StepShape &shape : shapes) {
    ShapeBench bench(given, workload, *limits, shape);
    chains ? bench.runChains() : bench.runInPlace();
    bench.addResults(results);
    tables += bench.text();
  }
  report.update(workload.json());
  report["timing"] = chains ? "chain" : "place";
  report["limits"] = limits->json();
  report["results"] = std::move(results);
  std::string text =
      fmt::format("machine  {}\nlimits   {}\n{}", machineText(), limits->text(), workload.text()) +
      tables + notes(chains) +
      "(each weight once, of experts the chosen ones, of the cache index keys of "
      "all tokens, keys and values of the selected; 2 for a multiply-add).\nlimit: "
      "the larger of bytes / bandwidth and operations / peak, as measured in this "
      "run, over the median. In its place on a GPU a time includes that of the "
      "event behind the launch.\n";
  deliver(given.plan.output, report, text);
  return 0;
}

} // namespace

std::function<int()> setUpKernel(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  addPlanOptions(app, arguments->plan);
  app.add_option("--context", arguments->context,
                 "tokens in the cache before the step; beyond 4096 made-up ones")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--rows", arguments->rows, "tokens of the step: 1 = decode")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--shape", arguments->shapes,
                 "A list of SEQUENCESxROWS@CONTEXT, as 1x1@8192,128x1@8192, instead of the two")
      ->delimiter(',');
  app.add_option("--timing", arguments->timing,
                 "place: in the step; chain: launches of a kind by themselves, layer by layer; "
                 "auto: place on the host, else chain")
      ->check(oneOf({"auto", "place", "chain"}))
      ->capture_default_str();
  app.add_option("--kinds", arguments->kinds, "kernels to measure, as named in the report")
      ->delimiter(',');
  app.add_option("--repeats", arguments->repeats,
                 "samples; 0 = of steps 32 of one row, 5 of more, of chains 15");
  return [arguments] { return runKernel(*arguments); };
}

} // namespace m3c::bench
