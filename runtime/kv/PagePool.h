// The pages of the key-value cache. A page holds 128 tokens of every lane (K, V, index key, scales)
// of every layer, so lanes cannot part. Page ids are 32-bit, byte offsets 64-bit.
#pragma once

#include "runtime/hal/Hal.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace m3c {

struct PagePoolOptions {
  uint64_t pages = 0;
  uint64_t pageBytes = 0;
  /// Hands pages out in the order that this seed gives instead of ascending. Results must not
  /// depend on it.
  std::optional<uint64_t> shuffleSeed = std::nullopt;
  /// Fills the pages with 0xff (NaN in F32, BF16 and E4M3) first and again when they are freed, so
  /// that a read of an unwritten byte shows. Touches all of the pool.
  bool poison = false;
};

class PagePool {
public:
  /// Throws Error when there is no room, or the count is not within 1 … 2^31 − 1.
  PagePool(hal::Device &device, hal::Stream &stream, const PagePoolOptions &options);

  hal::Buffer &memory() { return *buffer; }
  uint64_t pageCount() const { return options.pages; }
  uint64_t freePages() const { return freeList.size(); }

  /// A page whose content is undefined; nothing when all are taken.
  std::optional<int32_t> allocate();
  /// Throws Error for a page that is not taken.
  void release(int32_t page);

private:
  void poison(int32_t page);

  hal::Stream &stream;
  PagePoolOptions options;
  std::unique_ptr<hal::Buffer> buffer;
  std::vector<int32_t> freeList; ///< the last one is handed out next
  std::vector<bool> taken;
};

} // namespace m3c
