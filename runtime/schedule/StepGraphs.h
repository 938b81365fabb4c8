// Recorded graphs of an engine's step program, made when a shape is first met and replayed from
// then on, and the memory that all of them share.
#pragma once

#include "runtime/schedule/Engine.h"

namespace m3c {

/// Sizes that fix the addresses in the graphs.
struct StepLimits {
  uint32_t maxSequences = 1;
  uint32_t maxBlocks = 0; ///< longest sequence, in 128-token blocks, a power of two
};

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

  /// One where the step arrays are copied to the device before anything reads them, else none.
  size_t leadingNodes() const { return deviceArrays ? 1 : 0; }

  /// Row `row` of the logits that the last replay of this bucket left.
  std::span<const float> logits(uint32_t bucket, uint32_t row, hal::Stream &stream);
  /// Row `row` of tap `tap` of this bucket, after a traced replay.
  std::span<const std::byte> tapRow(uint32_t bucket, uint32_t tap, uint32_t row) const;

private:
  std::unique_ptr<hal::Graph> record(const plan::Bucket &bucket, uint32_t blocks, bool traced);
  uint64_t filledBytes(const plan::Bucket &bucket, uint32_t blocks) const;
  void recordLaunch(hal::Graph &graph, const plan::Launch &launch, uint32_t blocks);
  uint64_t parameter(const plan::Arg &arg, uint32_t blocks) const;
  void recordTaps(hal::Graph &graph, const plan::Bucket &bucket, uint32_t launch);
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
  std::vector<std::unique_ptr<hal::Graph>> graphs; ///< [bucket][log2 blocks][traced]
  std::vector<float> staging; ///< a row of logits where the CPU cannot reach the arena
};

} // namespace m3c
