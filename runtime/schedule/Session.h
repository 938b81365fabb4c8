// Sequences with their caches on one engine, and the steps that extend them. One thread at a time.
#pragma once

#include "runtime/kv/PagePool.h"
#include "runtime/schedule/Engine.h"
#include "runtime/schedule/Ledger.h"
#include "runtime/schedule/StepGraphs.h"
#include "runtime/schedule/StepPlanner.h"

#include <functional>

namespace m3c {

struct SessionOptions {
  uint64_t pages = 0;        ///< of the KV cache, 128 tokens each
  uint32_t maxSequences = 1; ///< alive at once
  uint32_t chunk = 512;      ///< most tokens of one sequence in a step
  uint64_t maxTokens = 0;    ///< longest sequence; 0: what model and pages allow
  std::optional<uint64_t> shuffleSeed = std::nullopt; ///< of the page order
  bool poison = false;                                ///< unused cache bytes are NaN codes
  /// Steps are recorded as graphs and replayed; else every launch is started by itself.
  bool record = true;
};

using SequenceId = uint32_t;

/// Tokens to put after a sequence. The tokens must stay until `run` returns.
struct Append {
  SequenceId sequence = 0;
  std::span<const int32_t> tokens;
  Want want = Want::Last;
};

/// Logits [vocab] after token `token` (index in the append) of append `append`; the values are
/// valid during the call.
using LogitSink = std::function<void(size_t append, size_t token, std::span<const float> logits)>;

/// One row of a tap: Blocks I32 [KV heads, top-k], Experts I32 [top-k], Hidden F32 [hidden].
struct TraceRow {
  plan::TapKind kind;
  uint32_t layer;
  size_t append, token;
  std::span<const std::byte> bytes;
};
using TraceSink = std::function<void(const TraceRow &)>;

class Session {
public:
  /// Memory of weights, code, arena, cache and step arrays.
  static Ledger ledger(const Engine &engine, const SessionOptions &options);
  /// Throws Error when the ledger, less what is bound already, exceeds what the device has free;
  /// the error says how many pages would fit.
  static void checkMemory(const Engine &engine, const SessionOptions &options);

  /// Allocates cache and arena. The engine's weights must be bound.
  Session(const Engine &engine, const SessionOptions &options);

  SequenceId create();
  /// Gives the pages back.
  void release(SequenceId sequence);
  uint64_t length(SequenceId sequence) const { return alive(sequence).length; }
  /// Tokens of the longest sequence that model, options and cache allow.
  uint64_t longestSequence() const;
  uint64_t freePages() const { return pool.freePages(); }

  /// Runs steps until all appends are in the cache; each sequence at most once. Rows of several
  /// sequences share a step. Results do not depend on chunk, on other sequences or on the page
  /// order. Throws Error before any step for an unknown token id, a sequence that would outgrow
  /// `longestSequence`, and too few free pages; after a step whose logits are not finite.
  void run(std::span<const Append> appends, const LogitSink &logits,
           const TraceSink &trace = nullptr);

  uint64_t stepsRun() const;
  /// Steps that ran in each bucket of the engine's target.
  std::span<const uint64_t> stepsOfBuckets() const { return bucketSteps; }

  /// Puts `tokens` tokens after a sequence without running them: the cache of the blocks that are
  /// added, counted from the sequence's first, is what `fill` puts into a page.
  using PageFiller = std::function<void(uint64_t block, std::span<std::byte> page)>;
  void extendWith(SequenceId sequence, uint64_t tokens, const PageFiller &fill);
  /// The same with made-up finite values. For measuring steps at a length that would take long to
  /// reach.
  void extendMadeUp(SequenceId sequence, uint64_t tokens);

  /// Called after every step, where set: seconds[i] is the time of launch i of the bucket.
  using StepTimes =
      std::function<void(uint32_t bucket, std::span<const double> seconds, const StepPlan &step)>;
  void setStepTimes(StepTimes callback) { stepTimes = std::move(callback); }
  /// Called after a graph was recorded, where set.
  void setRecorded(StepGraphs::Recorded callback) { graphs.setRecorded(std::move(callback)); }

  /// For measuring: `samples` times the seconds that one of `launches` takes, from a graph of
  /// `count` of them in turn. They are launches, by index in the bucket, of the step that ran last,
  /// all of one kernel; each has its own weights and cache, so these come from memory where
  /// together they exceed the device's caches. Throws Error before the first step.
  std::vector<double> timeLaunches(std::span<const uint32_t> launches, uint32_t count,
                                   unsigned samples);

private:
  struct Sequence {
    bool alive = false;
    bool busy = false; ///< named by the append at hand
    uint64_t length = 0;
    std::vector<int32_t> pages;
  };

  const Sequence &alive(SequenceId sequence) const;
  Sequence &alive(SequenceId sequence);
  void checkAppends(std::span<const Append> appends);
  void checkTokens(const Append &append) const;
  void checkLength(const Sequence &sequence, uint64_t more) const;
  void checkPages(uint64_t pages) const;
  void takePages(Sequence &sequence, uint64_t length);
  size_t addBlocks(Sequence &sequence, uint64_t tokens);
  uint64_t placeOf(int32_t page) const;
  void fillStep(std::span<const Append> appends);
  void runStep(bool traced);
  double timeReplay(hal::Graph &graph);
  void deliver(std::span<const Append> appends, const LogitSink &logits, const TraceSink &trace);
  void deliverTrace(const TraceSink &trace);
  void checkLogits(std::span<const float> row, SequenceId sequence, uint64_t position) const;

  const Engine &engine;
  SessionOptions options;
  std::unique_ptr<hal::Stream> stream;
  PagePool pool;
  StepGraphs graphs;
  StepPlanner planner;
  std::vector<Sequence> sequences;
  std::vector<Pending> pending;
  StepPlan step;
  uint32_t blocks = 0;    ///< of the step
  uint32_t ranBucket = 0; ///< of the step that ran last
  std::vector<uint64_t> bucketSteps;
  StepTimes stepTimes;
  std::vector<double> nodeTimes;
};

} // namespace m3c
