// The transformations between a stored tensor and a weight buffer (plan.fbs Recipe).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace m3c {

/// Rows of one panel (at most 16) of `rowBytes` each, a multiple of 4 -> [rowBytes/4][16] words,
/// one line of 16 in every `abreast` lines; absent rows keep what `to` holds.
void repackWords(std::span<const std::byte> rows, uint64_t rowBytes, std::byte *to,
                 uint64_t abreast = 1);

/// The same for single bytes: -> [rowBytes][16].
void repackBytes(std::span<const std::byte> rows, uint64_t rowBytes, std::byte *to,
                 uint64_t abreast = 1);

/// Rows of one panel -> operands of matrix instructions (plan.fbs FragmentWords): for every 64
/// columns and lane 4g + t the codes of columns 16t … 16t+15 of row g, then of row g + 8, in words
/// of which each half holds one of a pair of neighbours. `bits` is 4, 8, 16 or
/// 32 (a word for each), `rowBytes` that of a
/// multiple of 64 columns; absent rows keep what `to` holds.
void repackFragmentWords(std::span<const std::byte> rows, uint64_t rowBytes, uint32_t bits,
                         std::byte *to);

/// The scale bytes to go with them (FragmentScales): for every 64 columns and lane those of its two
/// rows. `group` is 16 or 32 columns.
void repackFragmentScales(std::span<const std::byte> rows, uint64_t rowBytes, uint32_t group,
                          std::byte *to);

} // namespace m3c
