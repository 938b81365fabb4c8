// One step over a made-up ragged batch in memory of its own, to be launched kernel by kernel.
#pragma once

#include "runtime/schedule/Engine.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace m3c {

struct MadeUpBatch {
  uint32_t rows = 1;   ///< of the step, all sequences together
  uint64_t tokens = 0; ///< in the cache before the longest sequence's row
  uint64_t seed = 1;   ///< of pages, their order and token ids
};

/// Bytes of the cache from a page's `offset` on.
struct PageRange {
  uint64_t offset = 0, bytes = 0;
};

class MadeUpStep {
public:
  /// The engine's weights must be bound. Up to three sequences: one row after `tokens` tokens, most
  /// rows across the end of a page, and a row that has no token before it. Throws Error for more
  /// rows than the bucket has and for positions that the model has not.
  MadeUpStep(const Engine &engine, const plan::Bucket &bucket, const MadeUpBatch &batch);

  /// Where an argument points.
  struct Place {
    const hal::Buffer *buffer = nullptr; ///< null: a number
    uint64_t value = 0;                  ///< the number, or the pointer's offset in the buffer
    uint64_t bytes = 0;                  ///< that the launch may reach from there on
    std::optional<PageRange> inPages = std::nullopt; ///< the cache: of each page, no `bytes`
    std::string name;
  };
  Place placeOf(const plan::Arg &arg) const;
  uint64_t parameter(const plan::Arg &arg) const;

  hal::Stream &stream() { return *work; }
  uint32_t blocks() const { return tableRow; }
  /// Pages that the sequences have, ascending.
  std::span<const int32_t> usedPages() const { return pages; }
  uint64_t pageBytes() const;
  void launch(const plan::Launch &launch);

private:
  struct Sequence {
    uint64_t before = 0; ///< tokens
    uint32_t rows = 1;
  };
  static std::vector<Sequence> sequencesOf(const MadeUpBatch &batch, uint64_t pageTokens);
  void fillPages(const std::vector<Sequence> &sequences, uint64_t seed);
  void fillArrays(const std::vector<Sequence> &sequences, uint64_t seed);

  const Engine &engine;
  const plan::Bucket &bucket;
  std::unique_ptr<hal::Stream> work;
  std::unique_ptr<hal::Buffer> arena, pool;
  std::unique_ptr<hal::Buffer> arrays[size_t(plan::BatchArray::MAX) + 1];
  std::vector<int32_t> pages;                ///< in use
  std::vector<std::vector<int32_t>> pagesOf; ///< by sequence
  uint32_t tableRow = 0;                     ///< blocks of a row of the page table
};

} // namespace m3c
