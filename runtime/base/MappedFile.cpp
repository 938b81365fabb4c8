#include "runtime/base/MappedFile.h"

#include "runtime/base/Error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace m3c {

[[noreturn]] static void failOpen(const std::string &name, int code) {
  std::string why = code == ENOENT  ? "the file does not exist"
                    : code == ELOOP ? "it is a symbolic link to itself (a loop of links)"
                                    : std::generic_category().message(code);
  throw Error(fmt::format("cannot open {}", name), name, why);
}

static std::string_view kindOf(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a named pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

MappedFile MappedFile::open(const std::filesystem::path &path, std::string name) {
  MappedFile file;
  file.fileName = std::move(name);
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.descriptor < 0)
    failOpen(file.fileName, errno);
  struct stat status;
  if (::fstat(file.descriptor, &status) != 0)
    failOpen(file.fileName, errno);
  if (!S_ISREG(status.st_mode))
    throw Error(fmt::format("cannot read {}", file.fileName), file.fileName,
                fmt::format("it is {}, not a regular file", kindOf(status.st_mode)));
  file.length = uint64_t(status.st_size);
  if (file.length == 0)
    return file;
  void *address = ::mmap(nullptr, file.length, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (address == MAP_FAILED)
    failOpen(file.fileName, errno);
  file.data = static_cast<const std::byte *>(address);
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(fileName, other.fileName);
  std::swap(descriptor, other.descriptor);
  std::swap(data, other.data);
  std::swap(length, other.length);
  return *this;
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<std::byte *>(data), length);
  if (descriptor >= 0)
    ::close(descriptor);
}

void MappedFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    ssize_t got = ::pread(descriptor, to.data(), to.size(), off_t(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      throw Error(
          fmt::format("cannot read {}", fileName), fileName,
          got < 0 ? fmt::format("at byte {}: {}", offset, std::generic_category().message(errno))
                  : fmt::format("the file ends at byte {}; it had {} bytes when opened", offset,
                                length));
    to = to.subspan(size_t(got));
    offset += uint64_t(got);
  }
}

} // namespace m3c
