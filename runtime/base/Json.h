// Strict JSON for files that come from outside: a key given twice, bytes that are not UTF-8, text
// after the value, and nesting or sizes beyond a limit are errors with the position in the file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace m3c {

/// Bounds on what a document may hold, so that memory stays in proportion to what the reader needs.
struct JsonLimits {
  size_t bytes = 256 << 20;             ///< of text
  size_t depth = 64;                    ///< nested objects and arrays
  size_t values = 1'000'000;            ///< objects, arrays, strings, numbers, literals in all
  std::string_view whatIsRead = "file"; ///< for messages, for instance "header"
};

/// Parses the whole of `text`. `file` names it in errors; `base` (bytes) is added to positions in
/// messages, for text that stands inside a larger file. Integers beyond 64 bits become
/// floating-point numbers.
nlohmann::json parseJson(std::string_view text, const std::string &file, JsonLimits limits = {},
                         size_t base = 0);

/// `text` cut to `limit` bytes, every byte outside printable ASCII written \xNN: names and values
/// from files never reach a terminal raw.
std::string printable(std::string_view text, size_t limit = 200);

/// The value as an error message shows it: compact JSON, printable, at most 80 bytes.
std::string jsonText(const nlohmann::json &value);

/// "a string", "an integer", … for messages.
std::string_view jsonKind(const nlohmann::json &value);

} // namespace m3c
