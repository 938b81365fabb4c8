#include "runtime/weights/Repack.h"

#include <algorithm>
#include <cstring>

namespace m3c {

namespace {

constexpr uint64_t panelRows = 16;

/// Transposes units of `T`, a block of 16 columns at a time so that both sides stay in the cache.
template <typename T>
void transpose(std::span<const std::byte> rows, uint64_t rowBytes, std::byte *to,
               uint64_t abreast) {
  uint64_t count = rows.size() / rowBytes, columns = rowBytes / sizeof(T);
  uint64_t line = panelRows * abreast;
  for (uint64_t block = 0; block < columns; block += 16)
    for (uint64_t row = 0; row < count; ++row) {
      const std::byte *from = rows.data() + row * rowBytes;
      for (uint64_t column = block; column < std::min(columns, block + 16); ++column)
        std::memcpy(to + (column * line + row) * sizeof(T), from + column * sizeof(T), sizeof(T));
    }
}

} // namespace

void repackWords(std::span<const std::byte> rows, uint64_t rowBytes, std::byte *to,
                 uint64_t abreast) {
  transpose<uint32_t>(rows, rowBytes, to, abreast);
}

void repackBytes(std::span<const std::byte> rows, uint64_t rowBytes, std::byte *to,
                 uint64_t abreast) {
  transpose<uint8_t>(rows, rowBytes, to, abreast);
}

} // namespace m3c
