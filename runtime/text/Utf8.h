// UTF-8 by the Unicode standard: well-formedness (table 3-7) and U+FFFD replacement of maximal
// subparts (section 3.9), which is also what Rust's and Python's lossy decoders do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace m3c::text {

inline constexpr std::string_view replacementCharacter = "\xEF\xBF\xBD"; // U+FFFD

/// What stands at the beginning of a byte string.
struct Utf8Unit {
  enum Kind { Valid, Invalid, Incomplete };
  Kind kind;
  /// Bytes of the character, of the ill-formed maximal subpart, or of the unfinished character.
  uint32_t size;
};

/// Looks at the first character of `bytes`, which must not be empty.
Utf8Unit scanUtf8(std::string_view bytes);

/// Offset of the first byte that is not part of a well-formed character; empty when all are.
std::optional<size_t> firstInvalidUtf8(std::string_view bytes);

/// Appends `bytes` to `out` with one U+FFFD for every ill-formed maximal subpart. An unfinished
/// character at the end is left alone unless `final`, when it too becomes one U+FFFD.
/// Returns the number of bytes consumed.
size_t appendLossyUtf8(std::string &out, std::string_view bytes, bool final);

/// Appends the character `codePoint` (a Unicode scalar value) as UTF-8.
void appendUtf8(std::string &out, uint32_t codePoint);

/// The code point of the well-formed character that `bytes` begins with.
uint32_t decodeUtf8(std::string_view bytes);

/// The white-space characters of Unicode (property White_Space).
bool isUnicodeSpace(uint32_t codePoint);

} // namespace m3c::text
