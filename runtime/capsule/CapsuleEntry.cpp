#include "runtime/capsule/CapsuleEntry.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace m3c {

void CapsuleEntry::expected(const std::string &what) const {
  fail(fmt::format("{}{}{} expected, found {}", place, place.empty() ? "" : ": ", what,
                   jsonText(value)));
  std::abort(); // `fail` throws
}

CapsuleEntry CapsuleEntry::at(const char *key) const {
  std::string inner = place.empty() ? key : fmt::format("{}.{}", place, key);
  if (!value.is_object())
    expected(fmt::format("an object with \"{}\"", key));
  if (!value.contains(key))
    fail(fmt::format("{} is missing", inner));
  return {value.at(key), std::move(inner), fail};
}

std::vector<CapsuleEntry> CapsuleEntry::list() const {
  if (!value.is_array())
    expected("a list");
  std::vector<CapsuleEntry> entries;
  for (size_t i = 0; i < value.size(); ++i)
    entries.emplace_back(value[i], fmt::format("{}[{}]", place, i), fail);
  return entries;
}

std::string CapsuleEntry::text() const {
  if (!value.is_string())
    expected("a text");
  return value.get<std::string>();
}

uint64_t CapsuleEntry::number(uint64_t least, uint64_t most) const {
  if (value.is_number_unsigned())
    if (auto found = value.get<uint64_t>(); found >= least && found <= most)
      return found;
  expected(fmt::format("a whole number from {} to {}", least, most));
}

double CapsuleEntry::distance() const {
  if (value.is_number())
    if (auto found = value.get<double>(); std::isfinite(found) && found >= 0)
      return found;
  expected("a number that is not negative");
}

} // namespace m3c
