#include "compiler/toolchains/HostLinker.h"

#include "runtime/base/Error.h"

#include "lld/Common/Driver.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stdlib.h>

LLD_HAS_DRIVER(elf)

// Declared in lld/Common/Version.h, which Debian ships without the file it includes.
namespace lld {
std::string getLLDVersion();
}

namespace m3c::toolchains {

namespace {

// A folder of its own under the system's folder for temporary files, removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "m3c-link-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw Error("cannot make a temporary folder", pattern, std::strerror(errno),
                  "make room, or set TMPDIR to a folder that can be written");
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::filesystem::path path;
};

std::vector<std::byte> readAll(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

} // namespace

std::vector<std::byte> linkShared(const std::string &name, std::span<const std::byte> object) {
  TemporaryFolder folder;
  std::string input = folder.path / "in.o", output = folder.path / "out.so";
  {
    std::ofstream out(input, std::ios::binary);
    out.write(reinterpret_cast<const char *>(object.data()), std::streamsize(object.size()));
    if (!out.flush())
      throw Error("cannot write a temporary file", input, std::strerror(errno),
                  "make room, or set TMPDIR to another folder");
  }
  std::string soname = "-soname=" + name;
  std::vector<const char *> args = {"ld.lld",
                                    "-shared",
                                    "-o",
                                    output.c_str(),
                                    soname.c_str(),
                                    "-Bsymbolic",
                                    "--gc-sections",
                                    "--build-id=none",
                                    "--hash-style=gnu",
                                    "--discard-all",
                                    "-z",
                                    "noexecstack",
                                    "-z",
                                    "now",
                                    "--no-mmap-output-file",
                                    "--threads=1",
                                    input.c_str()};

  static std::mutex linkerMutex;
  std::lock_guard lock(linkerMutex);
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0 || !result.canRunAgain)
    throw Error(fmt::format("kernel {} does not link", name), "", messages,
                "a fault in unedited text is a defect of m3c");
  return readAll(output);
}

std::string linkerVersion() {
  // "Debian LLD 22.1.8 (compatible with GNU linkers)" -> "22.1.8"
  std::string text = lld::getLLDVersion();
  size_t at = text.find("LLD ");
  text = at == std::string::npos ? text : text.substr(at + 4);
  return text.substr(0, text.find(' '));
}

} // namespace m3c::toolchains
