// Where a program may write: never over what it reads, and only where a file can be made. Programs
// ask before the first stage, so that no long work is lost and no input is damaged.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace m3c {

/// Throws (exit code 1) when `output` is one of `inputs`, by whatever name or link, or lies inside
/// one that is a folder; the error names both. Inputs that do not exist are left to their reader.
void requireApart(const std::filesystem::path &output,
                  std::span<const std::filesystem::path> inputs);

/// Throws (exit code 1) unless the folder of the file `output` exists and can be written, and
/// `output`, where it exists, is a regular file. A link counts as what it names (FileWriter.h).
void requireWritable(const std::filesystem::path &output);

/// Both checks, for a file to be written beside inputs that are only read.
void requireOutputPlace(const std::filesystem::path &output,
                        std::span<const std::filesystem::path> inputs);

/// A name from elsewhere as that of a file: it cannot leave the folder, and is short enough for a
/// suffix.
std::string fileNameOf(const std::string &name);

} // namespace m3c
