// Recorded graphs of an engine's step program, made when a shape is first met and replayed from
// then on, and the memory that all of them share.
#pragma once

#include "runtime/schedule/Engine.h"

#include <functional>

namespace m3c {

/// Sizes that fix the addresses in the graphs.
struct StepLimits {
  uint32_t maxSequences = 1;
  uint32_t maxBlocks = 0; ///< longest sequence, in 128-token blocks, a power of two
};

/// The grid of a launch for sequences of up to `blocks` blocks.
hal::Grid gridOf(const plan::Launch &launch, uint32_t blocks);

class StepGraphs {
public:
  /// Bytes of the arena and of the step arrays.
  static uint64_t arenaBytes(const plan::Target &target, const StepLimits &limits);
  static uint64_t arrayBytes(const plan::Target &target, const StepLimits &limits);

  StepGraphs(const Engine &engine, hal::Buffer &pages, const StepLimits &limits);

  /// Where the CPU writes a step array; its length is what the limits and the largest bucket need.
  int32_t *array(plan::BatchArray which) { return hostArrays[size_t(which)]; }

  /// The graph of a bucket for sequences of up to `blocks` blocks (a power of two). With `traced`
  /// its taps are copied out. Its nodes are `leadingNodes()` and then the bucket's launches, each
  /// followed by its taps.
  hal::Graph &graph(uint32_t bucket, uint32_t blocks, bool traced);

  /// Called when a graph was recorded: rows of its bucket, blocks, nodes, and what it took.
  using Recorded =
      std::function<void(uint32_t rows, uint32_t blocks, size_t nodes, double seconds)>;
  void setRecorded(Recorded callback) { recorded = std::move(callback); }

  /// The same launches and copies one by one, without a graph.
  void start(hal::Stream &stream, uint32_t bucket, uint32_t blocks, bool traced);

  /// For measuring: a graph of the bucket's first `count` launches, and one of `count` launches
  /// taken in turn from `launches`. The latter read the weights and cache of each, but the
  /// activations of the last one, so they may run once what precedes that one has run.
  std::unique_ptr<hal::Graph> leading(uint32_t bucket, uint32_t blocks, uint32_t count);
  std::unique_ptr<hal::Graph> chain(uint32_t bucket, uint32_t blocks,
                                    std::span<const uint32_t> launches, uint32_t count);

  /// One where the step arrays are copied to the device before anything reads them, else none.
  size_t leadingNodes() const { return deviceArrays ? 1 : 0; }

  /// Row `row` of the logits that the last replay of this bucket left.
  std::span<const float> logits(uint32_t bucket, uint32_t row, hal::Stream &stream);
  /// Row `row` of tap `tap` of this bucket, after a traced replay.
  std::span<const std::byte> tapRow(uint32_t bucket, uint32_t tap, uint32_t row) const;

private:
  void checkBlocks(uint32_t blocks) const;
  std::unique_ptr<hal::Graph> record(const plan::Bucket &bucket, uint32_t blocks, bool traced);
  uint64_t filledBytes(const plan::Bucket &bucket, uint32_t blocks) const;
  // `To` is a graph that records or a stream that starts.
  template <typename To>
  void emit(To &to, const plan::Bucket &bucket, uint32_t blocks, uint32_t count, bool traced);
  /// `activations`: the launch whose places in the arena are taken.
  template <typename To>
  void emitLaunch(To &to, const plan::Launch &launch, const plan::Launch &activations,
                  uint32_t blocks);
  uint64_t parameter(const plan::Arg &arg, uint32_t blocks) const;
  template <typename To> void emitTaps(To &to, const plan::Bucket &bucket, uint32_t launch);
  uint64_t tapOffset(const plan::Bucket &bucket, uint32_t tap) const;
  void allocateTrace();

  static constexpr size_t arrayCount = size_t(plan::BatchArray::MAX) + 1;

  const Engine &engine;
  hal::Buffer &pages;
  StepLimits limits;
  std::unique_ptr<hal::Buffer> arena, arrays, deviceArrays, trace;
  uint64_t pageTableOffset = 0; ///< in the arrays
  int32_t *hostArrays[arrayCount] = {};
  uint64_t arrayAddresses[arrayCount] = {};
  Recorded recorded;
  std::vector<std::unique_ptr<hal::Graph>> graphs; ///< [bucket][log2 blocks][traced]
  std::vector<uint64_t> parameters;                ///< of the launch at hand
  std::vector<float> staging; ///< a row of logits where the CPU cannot reach the arena
};

} // namespace m3c
