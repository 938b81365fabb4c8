#include "compiler/toolchains/HostLinker.h"

#include "runtime/base/Error.h"

#include "lld/Common/Driver.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

// Declared in lld/Common/Version.h, which Debian ships without the file it includes.
namespace lld {
std::string getLLDVersion();
}

namespace m3c::toolchains {

namespace {

[[noreturn]] void failSystem(const char *what) {
  throw Error(std::string("cannot link: ") + what + " failed", "", std::strerror(errno));
}

// A file in memory only, so that nothing stays behind whatever happens to the process.
class MemoryFile {
public:
  explicit MemoryFile(std::span<const std::byte> bytes) : descriptor(memfd_create("object", 0)) {
    if (descriptor < 0)
      failSystem("memfd_create");
    while (!bytes.empty()) {
      ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
      if (put < 0)
        failSystem("write");
      bytes = bytes.subspan(size_t(put));
    }
  }
  ~MemoryFile() { ::close(descriptor); }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor); }

private:
  int descriptor;
};

// What is written to `path()`, collected by a thread. lld writes to anything that is no regular
// file without a temporary file beside it.
class PipeReader {
public:
  PipeReader() {
    if (::pipe2(ends, O_CLOEXEC) != 0)
      failSystem("pipe");
    thread = std::thread([this] {
      std::byte buffer[65536];
      for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        bytes.insert(bytes.end(), buffer, buffer + got);
    });
  }
  ~PipeReader() { finish(); }
  PipeReader(const PipeReader &) = delete;
  PipeReader &operator=(const PipeReader &) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", ends[1]); }
  std::vector<std::byte> finish() {
    if (thread.joinable()) {
      ::close(ends[1]);
      thread.join();
      ::close(ends[0]);
    }
    return std::move(bytes);
  }

private:
  int ends[2];
  std::thread thread;
  std::vector<std::byte> bytes;
};

} // namespace

/// What every link has: nothing of this machine or this moment, no file beside the output.
static std::vector<std::byte> link(const std::string &name, std::span<const std::byte> object,
                                   std::vector<std::string> options) {
  MemoryFile file(object);
  PipeReader linked;
  options.insert(options.end(),
                 {"-shared", "--gc-sections", "--build-id=none", "--no-mmap-output-file",
                  "--threads=1", "-o", linked.path(), file.path()});
  std::vector<const char *> args = {"ld.lld"};
  for (const std::string &option : options)
    args.push_back(option.c_str());

  static std::mutex linkerMutex;
  std::lock_guard lock(linkerMutex);
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0 || !result.canRunAgain)
    throw Error(fmt::format("kernel {} does not link", name), "", messages,
                "a fault in unedited text is a defect of m3c");
  return linked.finish();
}

std::vector<std::byte> linkShared(const std::string &name, std::span<const std::byte> object) {
  return link(name, object,
              {"-soname=" + name, "-Bsymbolic", "--hash-style=gnu", "--discard-all", "-z",
               "noexecstack", "-z", "now"});
}

std::vector<std::byte> linkCodeObject(const std::string &name, std::span<const std::byte> object) {
  return link(name, object, {"--no-undefined", "--discard-all"});
}

std::string linkerVersion() {
  // "Debian LLD 22.1.8 (compatible with GNU linkers)" -> "22.1.8"
  std::string text = lld::getLLDVersion();
  size_t at = text.find("LLD ");
  text = at == std::string::npos ? text : text.substr(at + 4);
  return text.substr(0, text.find(' '));
}

} // namespace m3c::toolchains
