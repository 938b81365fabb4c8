#include "runtime/base/OutputPlace.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/Hash.h"

#include <algorithm>

#include <fmt/format.h>

namespace m3c {

namespace fs = std::filesystem;

// With links resolved as far as the path exists, and without a slash at the end.
static fs::path resolved(const fs::path &path) {
  std::error_code error;
  fs::path full = fs::weakly_canonical(fs::absolute(path), error);
  if (error)
    full = fs::absolute(path).lexically_normal();
  return full.has_filename() ? full : full.parent_path();
}

static bool liesInside(const fs::path &path, const fs::path &folder) {
  auto [inPath, inFolder] = std::mismatch(path.begin(), path.end(), folder.begin(), folder.end());
  return inFolder == folder.end();
}

void requireApart(const fs::path &output, std::span<const fs::path> inputs) {
  const std::string next = "choose another place for the output";
  // A link is written through, but belongs to the folder where it lies: both places count.
  fs::path full = fs::absolute(output).lexically_normal();
  const fs::path places[] = {resolved(output), resolved(full.parent_path()) / full.filename()};
  for (const fs::path &input : inputs) {
    std::error_code error;
    if (input.empty() || !fs::exists(input, error))
      continue;
    fs::path from = resolved(input);
    if (std::ranges::count(places, from) || fs::equivalent(output, input, error))
      throw Error(fmt::format("the output {} is the input {}", output.string(), input.string()),
                  output.string(), "an input is only read", next);
    if (fs::is_directory(from, error) &&
        std::ranges::any_of(places, [&](const fs::path &place) { return liesInside(place, from); }))
      throw Error(fmt::format("the output {} lies inside the input folder {}", output.string(),
                              input.string()),
                  output.string(), "an input folder is only read", next);
  }
}

void requireWritable(const fs::path &output) {
  std::error_code error;
  fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    throw Error("cannot write " + output.string(), output.string(),
                fmt::format("there is no folder {}", folder.string()), "make the folder first");
  FileWriter probe(output); // leaves nothing behind, and knows of disks that are only read
}

void requireOutputPlace(const fs::path &output, std::span<const fs::path> inputs) {
  requireApart(output, inputs);
  requireWritable(output);
}

std::string fileNameOf(const std::string &name) {
  std::string out;
  for (char c : name)
    out +=
        std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-' ? c : '_';
  constexpr size_t longest = 220; // a file name has 255 bytes at most
  if (out.size() > longest)
    out = out.substr(0, longest - 17) + "-" + hash128(name).hex().substr(0, 16);
  return out.empty() || out[0] == '.' ? "_" + out : out;
}

} // namespace m3c
