// An engine with a session, and the two things that a language model does: take in a prompt, and
// add a token.
#pragma once

#include "runtime/plan/StepWork.h"
#include "runtime/schedule/Session.h"
#include "tools/m3-bench/LimitSamples.h"
#include "tools/m3-bench/Options.h"

#include <memory>
#include <optional>

namespace m3c::bench {

/// Seconds from nothing to the first logits, in order.
struct StartTimes {
  double open = 0;       ///< read the plan, load its code
  double weights = 0;    ///< read and repack, or make up
  double session = 0;    ///< cache and arena
  double firstToken = 0; ///< a prompt of 8 tokens
  double total() const { return open + weights + session + firstToken; }
};

class Workload {
public:
  /// What the steps need: tokens of the longest sequence, sequences at once, and pages of the cache
  /// (0: one such sequence).
  struct Need {
    uint64_t tokens = 0;
    uint32_t sequences = 1;
    /// Sequences of so many tokens each that are alive together, for each of the steps.
    struct Together {
      uint32_t sequences;
      uint64_t tokens;
    };
    std::vector<Together> together = {};
  };
  /// Opens everything for these steps; `start` gets the times.
  Workload(const PlanOptions &options, const Need &need);

  const Engine &engine() const { return *loaded; }
  const plan::Tables &tables() const { return loaded->tables(); }
  Session &session() { return *running; }
  const StartTimes &start() const { return times; }
  /// That compute here: the host driver's workers, or the one that waits for another device.
  unsigned threads() const {
    const hal::DeviceInfo &info = loaded->device().info();
    return info.driver == "host" ? info.workers : 1;
  }

  /// A sequence of `tokens` random tokens. With `experts`, the number of distinct experts of each
  /// step and layer is counted: (*experts)[step][layer].
  using ExpertCounts = std::vector<std::vector<uint32_t>>;
  SequenceId prefill(uint64_t tokens, ExpertCounts *experts = nullptr);
  /// The same where only the length counts: beyond `longestReal` tokens, or as
  /// asked for, the cache is made up.
  SequenceId grown(uint64_t tokens, bool madeUp = false);
  static constexpr uint64_t longestReal = 4096; ///< tokens
  /// Appends random tokens.
  void append(SequenceId sequence, uint64_t tokens) { append(std::span(&sequence, 1), tokens); }
  /// The same to several sequences in one step, counting experts as `prefill` does.
  void append(std::span<const SequenceId> sequences, uint64_t tokens,
              ExpertCounts *experts = nullptr);

  /// Shapes of the steps that take in `tokens` tokens.
  std::vector<StepShape> prefillShapes(uint64_t tokens, const ExpertCounts &experts) const;
  /// Bytes of all weights, and of the cache at this context.
  uint64_t workingSet(uint64_t context) const;

  /// Plan, model, device and start, for a report.
  nlohmann::ordered_json json() const;
  std::string text() const;

private:
  void open(const PlanOptions &options, const Need &need);
  /// Pages of a sequence of `tokens` tokens.
  uint64_t pagesOf(uint64_t tokens) const;
  void run(std::span<const Append> appends, ExpertCounts *experts);
  std::span<const int32_t> nextTokens(uint64_t count);

  PlanOptions options;
  std::unique_ptr<Engine> loaded;
  std::unique_ptr<Session> running;
  StartTimes times;
  uint64_t random;
  std::vector<int32_t> ids;
  std::vector<Append> appends;
};

} // namespace m3c::bench
