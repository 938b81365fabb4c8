// `m3-bench step`: tokens a second of decode and prefill, as a user sees them.
#include "tools/common/Numbers.h"
#include "tools/m3-bench/Options.h"
#include "tools/m3-bench/Workload.h"

#include <algorithm>

#include <fmt/format.h>

namespace m3c::bench {
namespace {

struct Arguments {
  PlanOptions plan;
  std::vector<uint64_t> contexts = {128, 2048}, prompts = {2048};
  unsigned rounds = 5, tokens = 32;
};

/// One row of the report: seconds of a token, or of a whole prompt.
struct Case {
  std::string name;
  uint64_t context, tokens; ///< tokens that a sample is for
  bool decode;
  Work work;
  Result result;
  double wall = 0, cpu = 0;
};

class StepBench {
public:
  explicit StepBench(const Arguments &arguments)
      : arguments(arguments), workload(arguments.plan, {longest(arguments), 1, {}}),
        limits(limitsOf(workload.engine().device(), workload.engine().target())) {
    for (uint64_t prompt : arguments.prompts)
      addPrefill(prompt);
    for (uint64_t context : arguments.contexts)
      addDecode(context);
  }

  void run() {
    for (unsigned round = 0; round < arguments.rounds; ++round)
      for (Case &entry : cases) {
        limits->sample();
        entry.decode ? decode(entry) : prefill(entry);
      }
  }

  nlohmann::ordered_json report() const;
  std::string text() const;

private:
  static uint64_t longest(const Arguments &arguments) {
    uint64_t tokens = 0;
    for (uint64_t prompt : arguments.prompts)
      tokens = std::max(tokens, prompt);
    for (uint64_t context : arguments.contexts)
      tokens = std::max(tokens, context + arguments.tokens);
    return tokens;
  }

  /// Its warm-up counts the experts, too.
  void addPrefill(uint64_t tokens) {
    Workload::ExpertCounts experts;
    workload.session().release(workload.prefill(tokens, &experts));
    Case entry{fmt::format("prefill@{}", tokens), 0, tokens, false, {}, {}};
    for (const StepShape &shape : workload.prefillShapes(tokens, experts))
      entry.work += stepWork(workload.tables(), workload.engine().target(), shape);
    add(std::move(entry));
  }

  void addDecode(uint64_t context) {
    StepShape shape{context + arguments.tokens / 2, 1, 1};
    add({fmt::format("decode@{}", context),
         context,
         1,
         true,
         stepWork(workload.tables(), workload.engine().target(), shape),
         {}});
  }

  void add(Case entry) {
    entry.result.name = entry.name;
    entry.result.unit = "seconds";
    cases.push_back(std::move(entry));
  }

  void prefill(Case &entry) {
    UsageClock usage;
    SequenceId sequence = workload.prefill(entry.tokens);
    note(entry, usage);
    entry.result.samples.push_back(usage.wallSeconds());
    workload.session().release(sequence);
  }

  void decode(Case &entry) {
    SequenceId sequence = workload.grown(entry.context);
    UsageClock usage;
    for (unsigned i = 0; i < arguments.tokens; ++i) {
      UsageClock token;
      workload.append(sequence, 1);
      entry.result.samples.push_back(token.wallSeconds());
    }
    note(entry, usage);
    workload.session().release(sequence);
  }

  static void note(Case &entry, const UsageClock &usage) {
    entry.wall += usage.wallSeconds();
    entry.cpu += usage.cpuSeconds();
  }

  double least(const Case &entry) const {
    return limits->leastSeconds(entry.work.bytes, entry.work.operations,
                                workload.workingSet(entry.context + entry.tokens));
  }

  const Arguments &arguments;
  Workload workload;
  std::unique_ptr<LimitSamples> limits;
  std::vector<Case> cases;
};

nlohmann::ordered_json StepBench::report() const {
  nlohmann::ordered_json out = reportHead("step");
  out.update(workload.json());
  out["limits"] = limits->json();
  for (const Case &entry : cases) {
    Result result = entry.result;
    Summary summary = summarise(result.samples);
    double seconds = summary.median;
    result.facts["tokens_per_second"] = double(entry.tokens) / seconds;
    result.facts["bytes"] = entry.work.bytes;
    result.facts["operations"] = entry.work.operations;
    result.facts["limit_level"] = limits->level(workload.workingSet(entry.context + entry.tokens));
    result.facts["limit_seconds"] = least(entry);
    result.facts["share_of_limit"] = least(entry) / seconds;
    result.facts["cpu_per_thread_second"] = entry.cpu / entry.wall / workload.threads();
    out["results"].push_back(resultJson(result));
  }
  return out;
}

std::string StepBench::text() const {
  std::string text =
      fmt::format("machine  {}\nlimits   {}\n{}\n", machineText(), limits->text(), workload.text());
  text += fmt::format("{:<16} {:>10} {:>10} {:>7} {:>9} {:>9} {:>8} {:>7} {:>8}\n", "", "tokens/s",
                      "ms", "spread", "MB", "GFLOP", "GB/s", "limit", "cpu/wall");
  for (const Case &entry : cases) {
    Summary summary = summarise(entry.result.samples);
    double seconds = summary.median;
    text += fmt::format(
        "{:<16} {:>10.1f} {:>10.2f} {:>5.1f} % {:>9.1f} {:>9.2f} {:>8.1f} {:>5.1f} % "
        "{:>8.2f}\n",
        entry.name, double(entry.tokens) / seconds, seconds * 1e3, 100 * summary.spread(),
        entry.work.bytes / 1e6, entry.work.operations / 1e9, entry.work.bytes / seconds / 1e9,
        100 * least(entry) / seconds, entry.cpu / entry.wall / workload.threads());
  }
  return text + "\nms: median of a token (decode) or of the whole prompt, which is the time to its "
                "first token (prefill).\nspread: 90% less 10% quantile over the median. MB, GFLOP: "
                "the least that a sample must read and compute.\nlimit: least time (the larger of "
                "bytes / bandwidth and operations / peak, as measured in this run) over the "
                "median.\ncpu/wall: processor seconds of a thread for each second that passes; "
                "on the host, well under 1.00 means that other programs disturbed the run.\n";
}

int runStep(const Arguments &arguments) {
  StepBench bench(arguments);
  bench.run();
  deliver(arguments.plan.output, bench.report(), bench.text());
  return 0;
}

} // namespace

std::function<int()> setUpStep(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  addPlanOptions(app, arguments->plan);
  app.add_option("--context", arguments->contexts,
                 "tokens in the cache before decode, a list; beyond 4096 made-up ones")
      ->delimiter(',')
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--prompt", arguments->prompts, "tokens of a prompt to take in, a list")
      ->delimiter(',')
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--tokens", arguments->tokens, "tokens to decode in a round")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--rounds", arguments->rounds, "times that everything is run, limits between")
      ->check(atLeastOne())
      ->capture_default_str();
  return [arguments] { return runStep(*arguments); };
}

} // namespace m3c::bench
