// Reads the argument of --schedule.
#include "compiler/driver/Compile.h"

#include "runtime/base/Error.h"

#include <charconv>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace m3c {

// Numbers of choices count something: rows, panels, bytes.
static bool isCount(std::string_view text) {
  int32_t value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

static void readFile(const std::string &path, std::vector<std::string> &out) {
  std::ifstream in(path);
  if (!in)
    throw Error(fmt::format("cannot read the schedule file {}", path), path, "",
                "give family.choice=value, or the path of a JSON file", ExitCode::Usage);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  nlohmann::json schedule = nlohmann::json::parse(text, nullptr, false);
  auto fail = [&](const std::string &why) {
    throw Error(fmt::format("{} is no schedule", path), path, why,
                "write {\"family\": {\"choice\": number}}");
  };
  if (!schedule.is_object())
    fail("not a JSON object");
  for (const auto &[family, choices] : schedule.items()) {
    if (!choices.is_object())
      fail(fmt::format("'{}' is no object", family));
    for (const auto &[choice, value] : choices.items()) {
      if (!isCount(value.dump()))
        fail(fmt::format("'{}.{}' is no number from 0 to 2147483647", family, choice));
      out.push_back(fmt::format("{}.{}={}", family, choice, value.dump()));
    }
  }
}

std::vector<std::string> readSchedule(const std::vector<std::string> &arguments) {
  std::vector<std::string> choices;
  for (const std::string &argument : arguments) {
    size_t equals = argument.find('='), dot = argument.find('.');
    if (equals == std::string::npos)
      readFile(argument, choices);
    else if (dot == std::string::npos || dot > equals ||
             !isCount(std::string_view(argument).substr(equals + 1)))
      throw Error(fmt::format("'{}' is no schedule choice", argument), "--schedule",
                  "the number is from 0 to 2147483647", "write family.choice=number",
                  ExitCode::Usage);
    else
      choices.push_back(argument);
  }
  return choices;
}

} // namespace m3c
