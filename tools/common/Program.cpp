#include "tools/common/Program.h"

#include "runtime/base/Error.h"
#include "tools/common/Numbers.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace m3c {
namespace {

void flushOutput() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw Error("cannot write to standard output", "standard output",
                std::generic_category().message(errno));
}

int runCommand(const std::function<int()> &run) {
  try {
    int code = run();
    flushOutput();
    return code;
  } catch (const Error &error) {
    fmt::print(stderr, "{}\n", error.what());
    return int(error.code());
  } catch (const std::bad_alloc &) {
    fmt::print(stderr, "error: out of memory\n");
  } catch (const std::exception &error) {
    fmt::print(stderr, "error: {}\n  why:   a fault inside m3c\n", error.what());
  }
  return int(ExitCode::Failure);
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
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : int(ExitCode::Usage);
  }
  return runCommand(chosen);
}

} // namespace m3c
