#include "runtime/base/Error.h"
#include "tools/m3-bench/Options.h"

#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>

namespace {

struct Command {
  const char *name;
  const char *summary;
  std::function<int()> (*setUp)(CLI::App &app);
};

constexpr Command commands[] = {
    {"limits", "Read bandwidth and FP32 peak of this machine", m3c::bench::setUpLimits},
    {"kernel", "Time of every kernel inside a step, with its share of the limit",
     m3c::bench::setUpKernel},
    {"step", "Decode and prefill speed, with the share of the limit", m3c::bench::setUpStep},
    {"compare", "Two reports side by side, with confidence intervals", m3c::bench::setUpCompare},
};

/// Exit codes: 0 done, 1 bad input or a failed operation, 2 wrong usage.
int runCommand(const std::function<int()> &run) {
  try {
    return run();
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
  CLI::App app("m3-bench measures plans, kernels and this machine.", "m3-bench");
  app.set_version_flag("--version", "m3-bench " M3C_VERSION);
  app.require_subcommand(1);
  std::function<int()> chosen;
  for (const Command &command : commands) {
    CLI::App *sub = app.add_subcommand(command.name, command.summary);
    std::function<int()> run = command.setUp(*sub);
    sub->final_callback([&chosen, run] { chosen = run; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : int(m3c::ExitCode::Usage);
  }
  return runCommand(chosen);
}
