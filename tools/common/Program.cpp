#include "tools/common/Program.h"

#include "runtime/base/Error.h"
#include "tools/common/Numbers.h"
#include "tools/common/Tell.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {
namespace {

Error outputError(int code) {
  return Error("cannot write to standard output", "standard output",
               std::generic_category().message(code));
}

void flushOutput() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw outputError(errno);
}

int runCommand(const std::function<int()> &run) {
  try {
    int code = run();
    flushOutput();
    return code;
  } catch (const Error &error) {
    tell("{}\n", error.what());
    return int(error.code());
  } catch (const std::bad_alloc &) {
    tell("error: out of memory\n");
  } catch (
      const std::system_error &error) { // what printing throws, when more than a buffer is lost
    if (std::ferror(stdout))
      tell("{}\n", outputError(error.code().value()).what());
    else
      tell("error: {}\n  why:   a fault inside m3c\n", error.what());
  } catch (const std::exception &error) {
    tell("error: {}\n  why:   a fault inside m3c\n", error.what());
  }
  return int(ExitCode::Failure);
}

/// What is wrong with the arguments, in the form of every other error.
Error usageError(const CLI::App &app, const CLI::ParseError &error) {
  std::string where = app.get_name(), what = error.what(), why;
  for (const CLI::App *command : app.get_subcommands())
    where += " " + command->get_name();
  size_t colon = what.find(": "); // "--option: what its value breaks"
  if (dynamic_cast<const CLI::ValidationError *>(&error) && colon != what.npos) {
    why = what.substr(colon + 2);
    what = what.substr(0, colon) + " does not take this value";
  }
  if (dynamic_cast<const CLI::ExtrasError *>(&error)) // which has them in another order
    what = fmt::format("not expected: {}", fmt::join(app.remaining(true), " "));
  size_t equals = what.find(" = "); // "Could not convert: --option = value"
  if (dynamic_cast<const CLI::ConversionError *>(&error) && colon < equals && equals != what.npos) {
    why = what.substr(equals + 3) + " is out of range";
    what = what.substr(colon + 2, equals - colon - 2) + " does not take this value";
  }
  return Error(what, where, why, where + " --help says what it takes", ExitCode::Usage);
}

/// The first argument is a command or an option of the program itself; those take no values.
void checkCommand(const char *name, std::span<const Command> commands, int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-' ||
      std::ranges::count(commands, std::string_view(argv[1]), &Command::name))
    return;
  std::vector<std::string_view> known;
  for (const Command &command : commands)
    known.push_back(command.name);
  throw Error(
      fmt::format("{} has no command '{}'", name, argv[1]), name, "",
      fmt::format("choose one of {}; {} --help says what they do", fmt::join(known, ", "), name),
      ExitCode::Usage);
}

} // namespace

int runProgram(const char *name, const char *description, std::span<const Command> commands,
               int argc, char **argv) {
  CLI::App app(description, name);
  app.set_version_flag("--version", std::string(name) + " " M3C_VERSION);
  app.require_subcommand(1);
  std::function<int()> chosen;
  for (const Command &command : commands) {
    CLI::App *sub = app.add_subcommand(command.name, command.summary);
    std::function<int()> run = command.setUp(*sub);
    checkNumbers(*sub);
    sub->final_callback([&chosen, run] { chosen = run; });
  }
  try {
    checkCommand(name, commands, argc, argv);
    app.parse(argc, argv);
  } catch (const Error &error) {
    tell("{}\n", error.what());
    return int(error.code());
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // help or version
      return app.exit(error);
    tell("{}\n", usageError(app, error).what());
    return int(ExitCode::Usage);
  }
  return runCommand(chosen);
}

} // namespace m3c
