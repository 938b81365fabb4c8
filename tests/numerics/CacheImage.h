// The cache of a test twice: as the bytes that kernels read, and as the reference's numbers.
#pragma once

#include "compiler/interpreter/PagedCache.h"

#include <cstddef>
#include <memory>
#include <string>

namespace m3c::numerics {

struct CacheSpec {
  std::string storage = "nvfp4"; ///< "f32", "bf16", "fp8", "nvfp4"
  bool e4m3Grid = true;          ///< nvfp4 only
  int64_t kvHeads = 4, headDim = 128, indexDim = 128;

  /// As m3 text writes it, with one layer.
  std::string type() const;
  interpreter::Step step() const;
};

/// One layer. Bytes that nothing was written to hold NaN codes. Pages live in a reserved range of
/// addresses, so that a page number may be huge.
class CacheImage {
public:
  CacheImage(const CacheSpec &spec, int64_t pages);
  ~CacheImage();
  CacheImage(const CacheImage &) = delete;

  /// Writes one token's vector in both forms (docs/plan-format.md gives the slots).
  void write(interpreter::Lane lane, int32_t page, int64_t token, int64_t head,
             std::span<const double> values);
  /// Fills a page with NaN codes: what a kernel must not read into its results.
  void poison(int32_t page);

  std::byte *base() const { return memory; }
  int64_t bytesOfPage() const { return pageBytes; }
  interpreter::PagedCache &reference() { return *numbers; }
  const CacheSpec &spec() const { return shape; }

private:
  int64_t slotBytes(int64_t dims) const;
  std::byte *slot(interpreter::Lane lane, int32_t page, int64_t head) const;

  CacheSpec shape;
  int64_t pageBytes, reserved;
  std::byte *memory;
  std::unique_ptr<interpreter::PagedCache> numbers;
};

} // namespace m3c::numerics
