#include "tools/common/Numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {
namespace {

/// Empty when the whole of `text` is a number of type T; otherwise what is wrong.
template <typename T> std::string numberFault(const std::string &text, const char *kind) {
  T value{};
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range)
    return fmt::format("{} is too large", text);
  if (error != std::errc() || rest != end)
    return fmt::format("'{}' is no {}", text, kind);
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value))
      return fmt::format("{} is not finite", text);
  } else {
    // strtoull, which reads the option's value, would take these as octal.
    size_t first = text.starts_with('-') ? 1 : 0;
    if (text[first] == '0' && text.size() > first + 1)
      return fmt::format("{} has leading zeros: write it without", text);
  }
  return "";
}

} // namespace

void checkNumbers(CLI::App &app) {
  for (CLI::Option *option : app.get_options()) {
    std::string type = option->get_type_name(); // "UINT:POSITIVE": validators follow the type
    if (type.starts_with("UINT"))
      option->check([](const std::string &text) {
        return numberFault<uint64_t>(text, "whole number of 0 or more");
      });
    else if (type.starts_with("INT"))
      option->check(
          [](const std::string &text) { return numberFault<int64_t>(text, "whole number"); });
    else if (type.starts_with("FLOAT"))
      option->check([](const std::string &text) { return numberFault<double>(text, "number"); });
  }
}

CLI::Validator atLeastOne() {
  auto fault = [](const std::string &text) {
    std::string wrong = numberFault<uint32_t>(text, "whole number of 1 or more");
    return wrong.empty() && text == "0" ? "0 is too small: 1 or more is needed" : wrong;
  };
  return {fault, "COUNT"};
}

CLI::Validator zeroOrMore() {
  auto fault = [](const std::string &text) {
    std::string wrong = numberFault<double>(text, "number of 0 or more");
    return wrong.empty() && text.starts_with('-') ? text + " is less than 0" : wrong;
  };
  return {fault, "NONNEGATIVE"};
}

template <typename T>
static CLI::Validator numberWithin(T least, T most, const char *kind, std::string range) {
  auto fault = [=](const std::string &text) {
    if (std::string wrong = numberFault<T>(text, kind); !wrong.empty())
      return wrong;
    T value{};
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value < least || value > most ? fmt::format("{} is not {}", text, range) : std::string();
  };
  return {fault, range};
}

CLI::Validator within(int64_t least, int64_t most) {
  return numberWithin(least, most, "whole number", fmt::format("from {} to {}", least, most));
}

CLI::Validator within(double least, double most) {
  bool isAbove = least == std::numeric_limits<double>::min(); // the first one above 0
  return numberWithin(least, most, "number",
                      isAbove ? fmt::format("above 0 and at most {:g}", most)
                              : fmt::format("from {:g} to {:g}", least, most));
}

CLI::Validator oneOf(std::vector<std::string> words) {
  std::string name = fmt::format("{{{}}}", fmt::join(words, ","));
  auto fault = [words = std::move(words)](const std::string &text) {
    return std::ranges::count(words, text)
               ? std::string()
               : fmt::format("'{}' is none of {}", text, fmt::join(words, ", "));
  };
  return {fault, name};
}

static std::vector<std::string> partsOf(const std::string &text) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

CLI::Validator tokenIds() {
  auto fault = [](const std::string &text) {
    for (const std::string &part : partsOf(text))
      if (std::string wrong = numberFault<int32_t>(part, "token id"); !wrong.empty())
        return wrong;
    return std::string();
  };
  return {fault, "IDS"};
}

std::vector<int32_t> readTokenIds(const std::string &text) {
  std::vector<int32_t> ids;
  for (const std::string &part : partsOf(text))
    std::from_chars(part.data(), part.data() + part.size(), ids.emplace_back());
  return ids;
}

} // namespace m3c
