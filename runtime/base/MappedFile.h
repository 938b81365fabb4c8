// A regular file, mapped read-only. Opening reads nothing but its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace m3c {

class MappedFile {
public:
  MappedFile() = default;
  /// Throws Error when the file does not exist, is no regular file (a folder, pipe or device), is a
  /// symbolic link to itself, or cannot be mapped. `name` is what errors call it.
  static MappedFile open(const std::filesystem::path &path, std::string name);
  static MappedFile open(const std::filesystem::path &path) { return open(path, path.string()); }

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  const std::string &name() const { return fileName; }
  uint64_t size() const { return length; }
  /// The whole file. Touching it after another program has cut the file ends the process with
  /// SIGBUS; `read` is safe.
  std::span<const std::byte> bytes() const { return {data, size_t(length)}; }

  /// Copies bytes from `offset` into `to`, past the mapping; a short file or a read error throws.
  void read(uint64_t offset, std::span<std::byte> to) const;

private:
  std::string fileName;
  int descriptor = -1;
  const std::byte *data = nullptr;
  uint64_t length = 0;
};

} // namespace m3c
