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

} // namespace m3c
