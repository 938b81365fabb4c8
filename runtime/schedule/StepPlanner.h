// Which rows go into the next step. Pure arithmetic over lengths: no device, no time.
#pragma once

#include "runtime/plan/plan_generated.h"

#include <cstdint>
#include <span>
#include <vector>

namespace m3c {

/// Which rows of an append give logits.
enum class Want : uint8_t { None, Last, All };

/// What is left to do for one append.
struct Pending {
  uint64_t total = 0; ///< tokens of the append
  uint64_t done = 0;  ///< tokens in earlier steps
  Want want = Want::Last;
};

/// Tokens [begin, begin + count) of append `append`.
struct Slice {
  uint32_t append = 0;
  uint64_t begin = 0;
  uint32_t count = 0;
  uint32_t logits = 0; ///< rows of the slice that give logits: its last ones
};

struct StepPlan {
  std::vector<Slice> slices; ///< by ascending append
  uint32_t rows = 0, logitRows = 0;
  uint32_t bucket = 0; ///< index in the tables
};

class StepPlanner {
public:
  /// `chunk`: most tokens of one append in a step (at least 1); `maxAppends`: most appends in one.
  StepPlanner(const plan::Target &target, uint32_t chunk, uint32_t maxAppends);

  /// Fills `plan` with the next step: appends in their order, each as far as the chunk and the
  /// largest bucket allow. False when nothing is left. Allocates only while `plan` grows.
  bool next(std::span<const Pending> pending, StepPlan &plan) const;

  uint32_t maxRows() const { return buckets.back().rows; }

private:
  struct Size {
    uint32_t rows, logitRows;
  };
  uint32_t smallestBucket(uint32_t rows, uint32_t logitRows) const;

  std::vector<Size> buckets;
  uint32_t chunk, maxAppends;
};

/// The power of two, at least `minimumBlocks`, that holds `blocks`.
uint32_t blocksBucket(uint64_t blocks);
inline constexpr uint32_t minimumBlocks = 8;

} // namespace m3c
