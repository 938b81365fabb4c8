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

constexpr uint64_t fragmentColumns = 64, lanes = 32, laneColumns = 16, halfRows = 8;

/// Where E2M1 code `j` of four lies in half a word. Sign and magnitude of the first three are as
/// far apart as in BF16, so that a shift and a mask give the bits of a value; the last takes what
/// is left.
uint32_t placedE2m1(uint32_t code, uint32_t j) {
  uint32_t sign = code >> 3, magnitude = code & 7;
  if (j < 3)
    return (sign << 15 | magnitude << 6) >> 3 * j;
  return magnitude >> 1 << 13 | sign << 11 | (magnitude & 1) << 10;
}

/// Word `word` of 16 codes: the pairs (2q, 2q+1) that it holds have their first code in the lower
/// half of the word, their second in the upper; a code of 32 bits is a word.
uint32_t pairedWord(const std::byte *codes, uint32_t bits, uint64_t word) {
  uint32_t pairs = 16 / bits, value = 0;
  if (bits == 32)
    std::memcpy(&value, codes + 4 * word, 4);
  for (uint32_t j = 0; j < pairs; ++j)
    for (uint32_t second = 0; second < 2; ++second) {
      uint64_t code = 2 * (word * pairs + j) + second;
      uint64_t bit = code * bits;
      uint32_t read = std::to_integer<uint32_t>(codes[bit / 8]);
      if (bits == 16)
        read |= std::to_integer<uint32_t>(codes[bit / 8 + 1]) << 8;
      read = read >> bit % 8 & ((1u << bits) - 1);
      value |= (bits == 4 ? placedE2m1(read, j) : read << bits * j) << 16 * second;
    }
  return value;
}

/// Where word `n` of `lane` stands: runs of four words alternate between the lanes.
uint64_t laneWord(uint64_t lane, uint64_t n) { return (n / 4 * lanes + lane) * 4 + n % 4; }

} // namespace

void repackFragmentWords(std::span<const std::byte> rows, uint64_t rowBytes, uint32_t bits,
                         std::byte *to) {
  uint64_t count = rows.size() / rowBytes, laneBytes = laneColumns * bits / 8;
  uint64_t rowWords = laneBytes / 4, unitBytes = lanes * 2 * laneBytes;
  for (uint64_t row = 0; row < count; ++row)
    for (uint64_t run = 0; run < rowBytes / laneBytes; ++run) { // 16 columns of one lane
      const std::byte *codes = rows.data() + row * rowBytes + run * laneBytes;
      uint64_t quad = fragmentColumns / laneColumns, lane = row % halfRows * quad + run % quad;
      std::byte *unit = to + run / quad * unitBytes;
      for (uint64_t word = 0; word < rowWords; ++word) {
        uint32_t value = pairedWord(codes, bits, word);
        std::memcpy(unit + 4 * laneWord(lane, row / halfRows * rowWords + word), &value, 4);
      }
    }
}

void repackFragmentScales(std::span<const std::byte> rows, uint64_t rowBytes, uint32_t group,
                          std::byte *to) {
  uint64_t count = rows.size() / rowBytes, groups = fragmentColumns / group;
  for (uint64_t row = 0; row < count; ++row)
    for (uint64_t g = 0; g < rowBytes; ++g) {
      uint64_t place = (row % halfRows * groups + g % groups) * 2 + row / halfRows;
      to[g / groups * groups * panelRows + place] = rows[row * rowBytes + g];
    }
}

void repackWords(std::span<const std::byte> rows, uint64_t rowBytes, std::byte *to,
                 uint64_t abreast) {
  transpose<uint32_t>(rows, rowBytes, to, abreast);
}

void repackBytes(std::span<const std::byte> rows, uint64_t rowBytes, std::byte *to,
                 uint64_t abreast) {
  transpose<uint8_t>(rows, rowBytes, to, abreast);
}

} // namespace m3c
