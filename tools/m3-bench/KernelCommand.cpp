// `m3-bench kernel`: time of every kernel inside a step, each against its own limit.
//
// The step is replayed whole and each launch of its recorded graph is timed in its place, so that
// caches hold what they hold in real work: a launch that is repeated alone would find its weights
// in the cache.
#include "runtime/base/Error.h"
#include "runtime/plan/List.h"
#include "tools/common/Numbers.h"
#include "tools/m3-bench/Options.h"
#include "tools/m3-bench/Workload.h"

#include <algorithm>

#include <fmt/format.h>

namespace m3c::bench {
namespace {

struct Arguments {
  PlanOptions plan;
  uint64_t context = 128;
  uint32_t rows = 1;
  unsigned repeats = 0; ///< 0: 32 for one row, 5 for more
};

/// Launches of one kind: a label without its layer.
struct Kind {
  std::string name, family, schedule;
  unsigned launches = 0;
  Work work;                   ///< of all its launches in a step
  std::vector<double> seconds; ///< of all its launches, by step
};

class KernelBench {
public:
  explicit KernelBench(const Arguments &arguments)
      : arguments(arguments), repeats(arguments.repeats     ? arguments.repeats
                                      : arguments.rows == 1 ? 32
                                                            : 5),
        workload(arguments.plan, arguments.context + uint64_t(arguments.rows) * stepsOfSequence()),
        limits(limitsOf(workload.engine().device(), workload.engine().target())) {
    shape = {arguments.context, arguments.rows, 1, {}};
    countExperts();
    listKinds();
  }

  void run() {
    for (unsigned done = 0; done < repeats;) {
      limits->sample();
      SequenceId sequence = workload.grown(arguments.context);
      workload.session().setStepTimes(
          [&](uint32_t bucket, std::span<const double> seconds, const StepPlan &) {
            take(workload.engine().bucket(bucket), seconds);
          });
      UsageClock usage;
      for (unsigned i = 0; i < stepsOfSequence() && done < repeats; ++i, ++done)
        workload.append(sequence, arguments.rows);
      wall += usage.wallSeconds();
      cpu += usage.cpuSeconds();
      workload.session().setStepTimes(nullptr);
      workload.session().release(sequence);
    }
  }

  nlohmann::ordered_json report() const;
  std::string text() const;

private:
  /// Steps before the context has grown too much: then the sequence is made anew.
  unsigned stepsOfSequence() const { return arguments.rows == 1 ? 16 : 1; }

  /// Counted in a prompt of as many rows.
  void countExperts() {
    if (arguments.rows == 1)
      return; // one row chooses top-k experts in every layer
    Workload::ExpertCounts experts;
    workload.session().release(workload.prefill(arguments.rows, &experts));
    if (experts.size() == 1)
      shape.distinctExperts = experts[0];
  }

  void listKinds() {
    const plan::Bucket *bucket = bucketFor(workload.engine().target(), shape);
    if (!bucket || arguments.rows > arguments.plan.chunk)
      throw Error(fmt::format("{} rows are not one step of this plan", arguments.rows),
                  arguments.plan.plan, "one step is timed", "ask for fewer --rows");
    for (const plan::Launch *launch : plan::list(bucket->launches())) {
      const plan::Kernel &kernel = *workload.tables().kernels()->Get(launch->kernel());
      Kind &kind = kindOf(kindOfLabel(launch->label()->string_view()));
      kind.family = kernel.family()->str();
      kind.schedule = kernel.schedule() ? kernel.schedule()->str() : "";
      ++kind.launches;
      kind.work += launchWork(workload.tables(), *launch, shape);
    }
  }

  Kind &kindOf(const std::string &name) {
    auto found = std::find_if(kinds.begin(), kinds.end(),
                              [&](const Kind &kind) { return kind.name == name; });
    if (found != kinds.end())
      return *found;
    return kinds.emplace_back(Kind{name, "", "", 0, {}, {}});
  }

  void take(const plan::Bucket &bucket, std::span<const double> seconds) {
    for (Kind &kind : kinds)
      kind.seconds.push_back(0);
    auto launches = plan::list(bucket.launches());
    for (uint32_t i = 0; i < launches.size(); ++i)
      kindOf(kindOfLabel(launches[i]->label()->string_view())).seconds.back() += seconds[i];
  }

  double least(const Kind &kind) const {
    return limits->leastSeconds(kind.work.bytes, kind.work.operations,
                                workload.workingSet(arguments.context + arguments.rows));
  }

  std::vector<const Kind *> bySeconds() const {
    std::vector<const Kind *> sorted;
    for (const Kind &kind : kinds)
      sorted.push_back(&kind);
    std::sort(sorted.begin(), sorted.end(),
              [](const Kind *a, const Kind *b) { return median(a->seconds) > median(b->seconds); });
    return sorted;
  }

  const Arguments &arguments;
  unsigned repeats;
  Workload workload;
  std::unique_ptr<LimitSamples> limits;
  StepShape shape;
  std::vector<Kind> kinds;
  double wall = 0, cpu = 0;
};

nlohmann::ordered_json KernelBench::report() const {
  nlohmann::ordered_json out = reportHead("kernel");
  out.update(workload.json());
  out["context"] = arguments.context;
  out["rows"] = arguments.rows;
  out["limits"] = limits->json();
  out["cpu_per_thread_second"] = cpu / wall / workload.threads();
  for (const Kind *kind : bySeconds()) {
    Result result{fmt::format("{}@{}+{}", kind->name, arguments.context, arguments.rows), "seconds",
                  false, kind->seconds};
    result.facts = {{"family", kind->family},
                    {"schedule", kind->schedule},
                    {"launches", kind->launches},
                    {"bytes", kind->work.bytes},
                    {"operations", kind->work.operations},
                    {"limit_seconds", least(*kind)},
                    {"share_of_limit", least(*kind) / median(kind->seconds)}};
    out["results"].push_back(resultJson(result));
  }
  return out;
}

std::string KernelBench::text() const {
  double all = 0;
  for (const Kind &kind : kinds)
    all += median(kind.seconds);
  std::string text = fmt::format(
      "machine  {}\nlimits   {} ({})\n{}step     {} rows after {} tokens, {} repeats, {:.3f} ms in "
      "kernels; cpu/wall {:.2f}\n\n",
      machineText(), limits->text(),
      limits->level(workload.workingSet(arguments.context + arguments.rows)), workload.text(),
      arguments.rows, arguments.context, repeats, all * 1e3, cpu / wall / workload.threads());
  text += fmt::format("{:<18} {:>4} {:>10} {:>9} {:>7} {:>7} {:>9} {:>9} {:>7} {:>9} {:>8}\n",
                      "kernel", "n", "us each", "ms", "share", "spread", "MB", "GFLOP", "GB/s",
                      "GFLOP/s", "limit");
  for (const Kind *kind : bySeconds()) {
    Summary summary = summarise(kind->seconds);
    double seconds = summary.median;
    text += fmt::format("{:<18} {:>4} {:>10.2f} {:>9.3f} {:>5.1f} % {:>5.1f} % {:>9.3f} {:>9.4f} "
                        "{:>7.1f} {:>9.1f} {:>6.1f} %\n",
                        kind->name, kind->launches, seconds / kind->launches * 1e6, seconds * 1e3,
                        100 * seconds / all, 100 * summary.spread(), kind->work.bytes / 1e6,
                        kind->work.operations / 1e9, kind->work.bytes / seconds / 1e9,
                        kind->work.operations / seconds / 1e9, 100 * least(*kind) / seconds);
  }
  return text + "\nn: launches of the kind in a step; ms: median of all of them; MB, GFLOP: the "
                "least that they must read and compute\n(each weight once, of experts the chosen "
                "ones, of the cache index keys of all tokens, keys and values of the selected; 2 "
                "for a multiply-add).\nlimit: the larger of bytes / bandwidth and operations / "
                "peak, as measured in this run, over the median. On a GPU a time includes that of "
                "the event "
                "behind the launch.\n";
}

int runKernel(const Arguments &arguments) {
  KernelBench bench(arguments);
  bench.run();
  deliver(arguments.plan.output, bench.report(), bench.text());
  return 0;
}

} // namespace

std::function<int()> setUpKernel(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  addPlanOptions(app, arguments->plan);
  app.add_option("--context", arguments->context,
                 "Tokens in the cache before the step; beyond 4096 made-up ones")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--rows", arguments->rows, "Tokens of the step: 1 = decode")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--repeats", arguments->repeats, "Steps to time; 0 = 32 of one row, 5 of more");
  return [arguments] { return runKernel(*arguments); };
}

} // namespace m3c::bench
