// Reads the argument of --schedule.
#include "compiler/driver/Compile.h"

#include "runtime/base/Error.h"

#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace m3c {

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
      if (!value.is_number_integer())
        fail(fmt::format("'{}.{}' is no integer", family, choice));
      out.push_back(fmt::format("{}.{}={}", family, choice, value.get<int64_t>()));
    }
  }
}

std::vector<std::string> readSchedule(const std::vector<std::string> &arguments) {
  std::vector<std::string> choices;
  for (const std::string &argument : arguments) {
    size_t equals = argument.find('='), dot = argument.find('.');
    if (equals == std::string::npos)
      readFile(argument, choices);
    else if (dot == std::string::npos || dot > equals || equals + 1 == argument.size() ||
             argument.find_first_not_of("-0123456789", equals + 1) != std::string::npos)
      throw Error(fmt::format("'{}' is no schedule choice", argument), "--schedule", "",
                  "write family.choice=number", ExitCode::Usage);
    else
      choices.push_back(argument);
  }
  return choices;
}

} // namespace m3c
