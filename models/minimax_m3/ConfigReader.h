// Reads the keys of one object of config.json and keeps count of which were used, so that every key
// is used, known to be inert, or reported.
#pragma once

#include "models/minimax_m3/Findings.h"

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace m3c {

class ConfigReader {
public:
  /// `file` is the path for messages; `prefix` is "" or "text_config.".
  ConfigReader(const nlohmann::json &object, std::string file, std::string prefix,
               Findings &findings);

  /// The key's value, counted as used; null when absent. JSON null counts as absent.
  const nlohmann::json *find(const std::string &key);
  /// The first of several spellings that is there; two that are there must be equal.
  const nlohmann::json *find(std::initializer_list<const char *> keys);

  /// An integer in [low, high]; error when absent, of another type or out of range.
  int64_t integer(std::initializer_list<const char *> keys, int64_t low, int64_t high);
  std::optional<int64_t> optionalInteger(std::initializer_list<const char *> keys, int64_t low,
                                         int64_t high);
  /// A finite number > 0.
  double positive(const std::string &key);
  std::optional<bool> optionalFlag(const std::string &key);
  std::optional<std::string> optionalString(const std::string &key);
  /// Error unless the key is absent or the flag has this value; `why` says what m3c can do.
  void requireFlag(const std::string &key, bool value, std::string_view why);
  /// Error unless the key is absent or is one of the texts.
  void requireString(const std::string &key, std::initializer_list<const char *> allowed);
  /// A list of 0/1 or false/true with at least `count` entries; nothing when absent.
  std::optional<std::vector<bool>> flags(const std::string &key, int64_t count);
  /// The same from a list of texts: `one` is true, `zero` is false.
  std::optional<std::vector<bool>> kinds(const std::string &key, int64_t count, const char *zero,
                                         const char *one);
  /// A key that m3c needs not look at.
  void inert(std::initializer_list<const char *> keys);

  [[noreturn]] void fail(std::string_view key, std::string why) const;
  void note(std::string text) { findings.notes.push_back(std::move(text)); }
  void warn(std::string text) { findings.warnings.push_back(std::move(text)); }
  /// Reports the keys that were neither used nor inert.
  void reportUnknown() const;

  const std::string &file() const { return fileName; }
  std::string name(std::string_view key) const { return prefix + std::string(key); }

private:
  const nlohmann::json *list(const std::string &key, int64_t count);

  const nlohmann::json &object;
  std::string fileName, prefix;
  Findings &findings;
  std::set<std::string> used;
};

} // namespace m3c
