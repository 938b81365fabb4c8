#include "models/minimax_m3/ConfigReader.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {

using nlohmann::json;

ConfigReader::ConfigReader(const json &object, std::string file, std::string prefix,
                           Findings &findings)
    : object(object), fileName(std::move(file)), prefix(std::move(prefix)), findings(findings) {}

void ConfigReader::fail(std::string_view key, std::string why) const {
  throw Error(fmt::format("{}: {} is not acceptable", fileName, name(key)),
              fmt::format("{}, key {}", fileName, name(key)), std::move(why),
              "correct the file, or fetch it again");
}

const json *ConfigReader::find(const std::string &key) {
  auto found = object.find(key);
  if (found == object.end())
    return nullptr;
  used.insert(key);
  return found->is_null() ? nullptr : &*found;
}

const json *ConfigReader::find(std::initializer_list<const char *> keys) {
  const json *first = nullptr;
  const char *firstKey = nullptr;
  for (const char *key : keys)
    if (const json *value = find(key)) {
      if (first && *first != *value)
        fail(key, fmt::format("{} is {}, and {} is {}: two spellings of one key disagree",
                              name(key), jsonText(*value), name(firstKey), jsonText(*first)));
      if (!first) {
        first = value;
        firstKey = key;
      }
    }
  return first;
}

std::optional<int64_t> ConfigReader::optionalInteger(std::initializer_list<const char *> keys,
                                                     int64_t low, int64_t high) {
  const json *value = find(keys);
  if (!value)
    return std::nullopt;
  const char *key = *keys.begin();
  for (const char *spelling : keys)
    if (object.contains(spelling))
      key = spelling;
  if (!value->is_number_integer())
    fail(key,
         fmt::format("found {} ({}), an integer is expected", jsonText(*value), jsonKind(*value)));
  bool beyond = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX);
  if (beyond || value->get<int64_t>() < low || value->get<int64_t>() > high)
    fail(key, low == high
                  ? fmt::format("found {}, only {} is supported", jsonText(*value), low)
                  : fmt::format("found {}, expected {} to {}", jsonText(*value), low, high));
  return value->get<int64_t>();
}

int64_t ConfigReader::integer(std::initializer_list<const char *> keys, int64_t low, int64_t high) {
  std::optional<int64_t> value = optionalInteger(keys, low, high);
  if (!value)
    fail(*keys.begin(),
         fmt::format("the key is missing; m3c takes no default for a size{}",
                     keys.size() > 1 ? fmt::format(" (other spelling: {})", *(keys.begin() + 1))
                                     : ""));
  return *value;
}

double ConfigReader::positive(const std::string &key) {
  const json *value = find(key);
  if (!value)
    fail(key, "the key is missing; m3c takes no default for a number that changes results");
  if (!value->is_number())
    fail(key,
         fmt::format("found {} ({}), a number is expected", jsonText(*value), jsonKind(*value)));
  double number = value->get<double>();
  if (!std::isfinite(number) || number <= 0)
    fail(key, fmt::format("found {}, a positive number is expected", jsonText(*value)));
  return number;
}

std::optional<bool> ConfigReader::optionalFlag(const std::string &key) {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!value->is_boolean())
    fail(key, fmt::format("found {} ({}), true or false is expected", jsonText(*value),
                          jsonKind(*value)));
  return value->get<bool>();
}

std::optional<std::string> ConfigReader::optionalString(const std::string &key) {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!value->is_string())
    fail(key,
         fmt::format("found {} ({}), a string is expected", jsonText(*value), jsonKind(*value)));
  return value->get<std::string>();
}

void ConfigReader::requireFlag(const std::string &key, bool wanted, std::string_view why) {
  if (std::optional<bool> value = optionalFlag(key); value && *value != wanted)
    fail(key, fmt::format("found {}, only {} is supported: {}", *value, wanted, why));
}

void ConfigReader::requireString(const std::string &key,
                                 std::initializer_list<const char *> allowed) {
  std::optional<std::string> value = optionalString(key);
  if (!value)
    return;
  for (const char *text : allowed)
    if (*value == text)
      return;
  fail(key,
       fmt::format("found \"{}\", supported: {}", printable(*value), fmt::join(allowed, ", ")));
}

const json *ConfigReader::list(const std::string &key, int64_t count) {
  const json *value = find(key);
  if (!value)
    return nullptr;
  if (!value->is_array())
    fail(key,
         fmt::format("found {}, a list with one entry per layer is expected", jsonText(*value)));
  if (int64_t(value->size()) < count)
    fail(key,
         fmt::format("the list has {} entries, num_hidden_layers is {}", value->size(), count));
  if (int64_t(value->size()) > count)
    warn(fmt::format("{}: {} has {} entries for {} layers; the rest is not used", fileName,
                     name(key), value->size(), count));
  return value;
}

std::optional<std::vector<bool>> ConfigReader::flags(const std::string &key, int64_t count) {
  const json *value = list(key, count);
  if (!value)
    return std::nullopt;
  std::vector<bool> out;
  for (const json &entry : *value) {
    bool isBit = entry.is_number_integer() && (entry == 0 || entry == 1);
    if (!entry.is_boolean() && !isBit)
      fail(key, fmt::format("entry {} is {}; 0, 1, true or false is expected", out.size(),
                            jsonText(entry)));
    out.push_back(entry.is_boolean() ? entry.get<bool>() : entry == 1);
  }
  out.resize(size_t(count));
  return out;
}

std::optional<std::vector<bool>> ConfigReader::kinds(const std::string &key, int64_t count,
                                                     const char *zero, const char *one) {
  const json *value = list(key, count);
  if (!value)
    return std::nullopt;
  std::vector<bool> out;
  for (const json &entry : *value) {
    if (entry != zero && entry != one)
      fail(key, fmt::format("entry {} is {}; \"{}\" or \"{}\" is expected", out.size(),
                            jsonText(entry), zero, one));
    out.push_back(entry == one);
  }
  out.resize(size_t(count));
  return out;
}

void ConfigReader::inert(std::initializer_list<const char *> keys) {
  used.insert(keys.begin(), keys.end());
}

void ConfigReader::reportUnknown() const {
  for (const auto &[key, value] : object.items())
    if (!used.contains(key))
      findings.unknownKeys.push_back(name(printable(key)));
}

} // namespace m3c
