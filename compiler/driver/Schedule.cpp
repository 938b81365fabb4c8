// Reads the argument of --schedule.
#include "compiler/driver/Compile.h"

#include "runtime/base/Error.h"

#include <algorithm>
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
                "give family.choice=number, or the path of a JSON file", ExitCode::Usage);
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

static bool isChoice(std::string_view text) {
  size_t dot = text.find('.'), equals = text.find('=');
  return equals != std::string_view::npos && dot < equals && isCount(text.substr(equals + 1));
}

/// Choices between commas.
static void readChoices(const std::string &argument, std::vector<std::string> &out) {
  for (size_t begin = 0; begin <= argument.size();) {
    size_t end = std::min(argument.find(',', begin), argument.size());
    std::string choice = argument.substr(begin, end - begin);
    if (!isChoice(choice))
      throw Error(choice == argument
                      ? fmt::format("'{}' is no schedule choice", choice)
                      : fmt::format("'{}' in '{}' is no schedule choice", choice, argument),
                  "--schedule", "the number is from 0 to 2147483647",
                  "write family.choice=number, several with commas between them; a file is named "
                  "by an argument without '='",
                  ExitCode::Usage);
    out.push_back(std::move(choice));
    begin = end + 1;
  }
}

std::vector<std::string> readSchedule(const std::vector<std::string> &arguments) {
  std::vector<std::string> choices;
  for (const std::string &argument : arguments)
    if (argument.find('=') == std::string::npos)
      readFile(argument, choices);
    else
      readChoices(argument, choices);
  return choices;
}

} // namespace m3c
