#include "compiler/toolchains/Subprocess.h"

#include "runtime/base/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace m3c::toolchains {

namespace {

constexpr int inputNumber = 3;

[[noreturn]] void fail(const std::string &program, int error) {
  throw Error(fmt::format("cannot run {}", program), program, std::strerror(error));
}

// A file in memory; a program writes to it without anyone reading at the same time.
class MemoryFile {
public:
  explicit MemoryFile(const std::string &program) : program(program) {
    // Above the numbers that the program gets: none of them is a copy's source and target at once.
    int low = ::memfd_create("m3c", MFD_CLOEXEC);
    number = low < 0 ? -1 : ::fcntl(low, F_DUPFD_CLOEXEC, inputNumber + 1);
    int error = errno;
    if (low >= 0)
      ::close(low);
    if (number < 0)
      fail(program, error);
  }
  ~MemoryFile() { ::close(number); }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      ssize_t done = ::write(number, bytes.data(), bytes.size());
      if (done < 0 && errno != EINTR)
        fail(program, errno);
      bytes = bytes.subspan(size_t(std::max<ssize_t>(done, 0)));
    }
    ::lseek(number, 0, SEEK_SET);
  }

  std::string text() const {
    std::string all;
    char part[1 << 16];
    for (ssize_t got; (got = ::pread(number, part, sizeof part, off_t(all.size()))) > 0;)
      all.append(part, size_t(got));
    return all;
  }

  int get() const { return number; }

private:
  const std::string &program;
  int number = -1;
};

} // namespace

Finished runProgram(const std::string &program, const std::vector<std::string> &arguments,
                    std::span<const std::byte> input) {
  MemoryFile in(program), out(program), errors(program);
  in.write(input);
  std::vector<char *> values = {const_cast<char *>(program.c_str())};
  for (const std::string &argument : arguments)
    values.push_back(const_cast<char *>(argument.c_str()));
  values.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, errors.get(), 2);
  posix_spawn_file_actions_adddup2(&actions, in.get(), inputNumber);
  pid_t child = 0;
  int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, values.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    fail(program, error);
  int state = 0;
  while (::waitpid(child, &state, 0) < 0)
    if (errno != EINTR)
      fail(program, errno);
  int status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  return {status, out.text(), errors.text()};
}

} // namespace m3c::toolchains
