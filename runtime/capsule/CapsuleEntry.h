// Values of capsule.json: what is missing, of another kind or out of range is named by its place.
#pragma once

#include "runtime/base/Json.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace m3c {

class CapsuleEntry {
public:
  /// Throws an Error with that reason.
  using Fail = std::function<void(const std::string &why)>;

  /// `place` as messages give it, "arguments[4].value"; empty for the whole file.
  CapsuleEntry(const nlohmann::json &value, std::string place, Fail fail)
      : value(value), place(std::move(place)), fail(std::move(fail)) {}

  bool has(const char *key) const { return value.is_object() && value.contains(key); }
  /// Fails where this is no object, or has no such key.
  CapsuleEntry at(const char *key) const;
  /// Fails where this is no list.
  std::vector<CapsuleEntry> list() const;
  std::string text() const;
  /// A whole number within the range; fractions, signs and other kinds fail.
  uint64_t number(uint64_t least = 0, uint64_t most = UINT64_MAX) const;
  /// A finite number that is not negative.
  double distance() const;

private:
  [[noreturn]] void expected(const std::string &what) const;

  const nlohmann::json &value;
  std::string place;
  Fail fail;
};

} // namespace m3c
