#include "runtime/base/Error.h"
#include "tools/m3c/Commands.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include <fmt/format.h>

namespace {

/// Results that did not reach standard output (a full disk) are a failure.
void flushOutput() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw m3c::Error("cannot write to standard output", "standard output",
                     std::generic_category().message(errno));
}

/// Runs the chosen command. Exit codes: 0 done, 1 bad input or a failed operation, 2 wrong usage.
int runCommand(const std::function<int()> &run) {
  try {
    int code = run();
    flushOutput();
    return code;
  } catch (const m3c::Error &error) {
    fmt::print(stderr, "{}\n", error.what());
    return int(error.code());
  } catch (const std::bad_alloc &) {
    fmt::print(stderr, "error: out of memory\n");
  } catch (const std::exception &error) {
    fmt::print(stderr, "error: {}\n  why:   a fault inside m3c\n", error.what());
  }
  return int(m3c::ExitCode::Failure);
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("m3c compiles a MiniMax-M3 or M3.1 checkpoint into a plan that m3-run executes.",
               "m3c");
  app.set_version_flag("--version", "m3c " M3C_VERSION);
  app.require_subcommand(1);
  std::function<int()> chosen;
  for (const m3c::Command &command : m3c::commandTable()) {
    CLI::App *sub = app.add_subcommand(command.name, command.summary);
    std::function<int()> run = command.setUp(*sub);
    sub->callback([&chosen, run] { chosen = run; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : int(m3c::ExitCode::Usage);
  }
  return runCommand(chosen);
}
