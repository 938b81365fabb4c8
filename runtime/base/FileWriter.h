// Writes a file whole or not at all: into a file without a name (or a temporary one beside it,
// where the file system has none), renamed when complete. A symbolic link is written through: its
// target gets the content, as by any program that opens a file to write, and the link stays.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace m3c {

class FileWriter {
public:
  /// Creates the temporary file; throws Error when the folder does not exist or is read-only, also
  /// that of the place that a link names.
  explicit FileWriter(std::filesystem::path path);
  /// Removes the temporary file unless it was published.
  ~FileWriter();
  FileWriter(const FileWriter &) = delete;
  FileWriter &operator=(const FileWriter &) = delete;

  /// Throws Error when the disk is full.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Flushes to disk and renames to the final name, replacing what was there.
  void publish();

private:
  [[noreturn]] void fail(int code) const;
  void giveName();

  std::filesystem::path path, temporary;
  int descriptor = -1;
};

} // namespace m3c
