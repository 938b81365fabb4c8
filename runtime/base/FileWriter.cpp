#include "runtime/base/FileWriter.h"

#include "runtime/base/Error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace m3c {

/// Where a path leads through links, the last of which may name a file that does not exist.
static std::filesystem::path throughLinks(const std::filesystem::path &given) {
  constexpr int mostLinks = 40; // as many as Linux follows
  std::filesystem::path path = given;
  std::error_code error;
  for (int i = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(path, error)); ++i) {
    if (i == mostLinks)
      throw Error(fmt::format("cannot write {}", given.string()), given.string(),
                  fmt::format("it is a chain of more than {} symbolic links", mostLinks),
                  "give the name of a file");
    path = path.parent_path() / std::filesystem::read_symlink(path);
  }
  return path;
}

FileWriter::FileWriter(std::filesystem::path target) : path(throughLinks(target)) {
  // Renaming would put a file in the place of a device or pipe, and fails late on a folder.
  std::error_code ignored;
  std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(fmt::format("cannot write {}", path.string()), path.string(),
                std::filesystem::is_directory(status) ? "it is a folder"
                                                      : "it is not a regular file",
                "give the name of a file");
  // A file without a name leaves nothing behind when the process is killed.
  std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor >= 0)
    return;
  // Not every file system can do that.
  std::string name = path.string() + ".XXXXXX";
  descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0)
    fail(errno);
  temporary = name;
  // mkostemp makes the file private; give it the mode that open would have.
  mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor, 0666 & ~mask);
}

FileWriter::~FileWriter() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

void FileWriter::fail(int code) const {
  throw Error(fmt::format("cannot write {}", path.string()), path.string(),
              std::generic_category().message(code),
              code == ENOSPC || code == EDQUOT ? "free space on the disk, or write elsewhere"
              : code == ENOENT                 ? "make the folder first"
                                               : "");
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      fail(errno);
    bytes = bytes.subspan(size_t(put));
  }
}

void FileWriter::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void FileWriter::giveName() {
  static std::atomic<unsigned> counter = 0;
  std::string source = fmt::format("/proc/self/fd/{}", descriptor);
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string name = fmt::format("{}.{}-{}", path.string(), ::getpid(), counter++);
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary = name;
      return;
    }
    if (errno != EEXIST)
      fail(errno);
  }
  fail(EEXIST);
}

void FileWriter::publish() {
  if (::fsync(descriptor) != 0)
    fail(errno);
  if (temporary.empty())
    giveName();
  int closing = std::exchange(descriptor, -1);
  if (::close(closing) != 0)
    fail(errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    fail(errno);
  temporary.clear();
}

} // namespace m3c
