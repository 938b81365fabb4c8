#include "runtime/checkpoint/Checkpoint.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <fmt/format.h>

namespace m3c {
namespace fs = std::filesystem;
using nlohmann::json;

ModelFolder::ModelFolder(const fs::path &path) : shown(path.string()) {
  while (shown.size() > 1 && shown.ends_with('/'))
    shown.pop_back();
  std::error_code failed;
  real = fs::canonical(path, failed);
  if (failed || !fs::is_directory(real, failed))
    throw Error(fmt::format("cannot open the model folder {}", shown), shown,
                failed ? failed.message() : "it is not a folder",
                "name a folder with config.json and safetensors files");
}

std::string ModelFolder::pathOf(std::string_view name) const {
  return fmt::format("{}/{}", shown, printable(name));
}

/// True for a relative path without "..", "." and empty parts.
static bool isPlainName(std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos || name.find('\\') != name.npos)
    return false;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..")
      return false;
    begin = end + 1;
  }
  return true;
}

fs::path ModelFolder::resolve(std::string_view name, std::string_view namedBy) const {
  std::string who = namedBy.empty() ? shown : pathOf(namedBy);
  if (!isPlainName(name))
    throw Error(fmt::format("{}: file name \"{}\" is refused", who, printable(name)), who,
                "it is not a plain path inside the model folder (absolute, or with an empty or "
                "\"..\" part); the file was not opened",
                "correct the name");
  std::error_code failed;
  fs::path target = fs::canonical(real / name, failed);
  if (failed) {
    bool loop = failed == std::errc::too_many_symbolic_link_levels;
    throw Error(fmt::format("cannot open {}", pathOf(name)),
                namedBy.empty() ? pathOf(name)
                                : fmt::format("{}, named in {}", pathOf(name), namedBy),
                loop                                             ? "a loop of symbolic links"
                : failed == std::errc::no_such_file_or_directory ? "the file does not exist"
                                                                 : failed.message(),
                "fetch the file again");
  }
  auto [end, unused] = std::mismatch(real.begin(), real.end(), target.begin(), target.end());
  if (end != real.end())
    throw Error(fmt::format("{} is refused", pathOf(name)), pathOf(name),
                "it is a symbolic link that leads outside the model folder; it was not opened",
                "put the files themselves into the folder (for instance cp -rL FOLDER COPY)");
  return target;
}

bool ModelFolder::has(std::string_view name) const {
  std::error_code failed;
  return fs::symlink_status(real / name, failed).type() != fs::file_type::not_found;
}

MappedFile ModelFolder::open(std::string_view name, std::string_view namedBy) const {
  return MappedFile::open(resolve(name, namedBy), pathOf(name));
}

ModelFolder ModelFolder::subfolder(std::string_view name) const {
  ModelFolder inner(resolve(name, ""));
  inner.shown = pathOf(name);
  return inner;
}

std::vector<std::string> ModelFolder::safetensorsFiles() const {
  std::vector<std::string> names;
  std::error_code failed;
  for (const fs::directory_entry &entry : fs::directory_iterator(real, failed))
    if (entry.path().extension() == ".safetensors")
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Checkpoint Checkpoint::open(const fs::path &folder) { return Checkpoint(ModelFolder(folder)); }

Checkpoint::Checkpoint(ModelFolder folder) : place(std::move(folder)) {
  if (place.has(indexFileName)) {
    readIndex();
    return;
  }
  std::vector<std::string> files = place.safetensorsFiles();
  if (files.empty())
    return;
  if (files != std::vector<std::string>{"model.safetensors"})
    throw Error(fmt::format("{} does not exist", place.pathOf(indexFileName)), place.path(),
                fmt::format("the folder has {} safetensors files (the first is {}) and no index "
                            "that says which belong to the model",
                            files.size(), printable(files[0])),
                "fetch the index file");
  addShard(files[0], "");
  for (const TensorEntry &tensor : shardList[0].file.tensors())
    byName.emplace(tensor.name, Tensor{&tensor, &shardList[0]});
}

void Checkpoint::addShard(const std::string &name, std::string_view namedBy) {
  SafetensorsFile file(place.open(name, namedBy));
  Digest128 digest = hash128(file.headerBytes());
  shardList.push_back({name, std::move(file), digest});
}

void Checkpoint::readIndex() {
  MappedFile file = place.open(indexFileName);
  std::string where = place.pathOf(indexFileName);
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  json document = parseJson(text, where, {.depth = 8, .values = 4'000'000, .whatIsRead = "index"});
  index = hash128(text);
  auto fail = [&](std::string why) {
    throw Error(fmt::format("{}: wrong index", where), where, std::move(why),
                "fetch the index file again");
  };
  if (!document.is_object())
    fail(fmt::format("an object is expected, found {}", jsonKind(document)));
  auto found = document.find("weight_map");
  if (found == document.end())
    fail("key weight_map is missing");
  if (!found->is_object() || found->empty())
    fail("weight_map: an object from tensor names to shard names is expected");
  std::map<std::string, std::string> weightMap;
  std::set<std::string> names;
  for (const auto &[tensor, shard] : found->items()) {
    if (!shard.is_string())
      fail(fmt::format("weight_map: tensor {} has {} for a shard name, a string is expected",
                       printable(tensor), jsonText(shard)));
    weightMap[tensor] = shard.get<std::string>();
    names.insert(weightMap[tensor]);
  }
  shardList.reserve(names.size()); // tensors point into the list
  for (const std::string &name : names)
    addShard(name, indexFileName);
  bind(weightMap);
  if (auto metadata = document.find("metadata");
      metadata != document.end() && metadata->is_object() && metadata->contains("total_size"))
    if (const json &total = (*metadata)["total_size"]; total.is_number_unsigned())
      checkTotal(total.get<uint64_t>());
}

void Checkpoint::bind(const std::map<std::string, std::string> &weightMap) {
  for (const Shard &shard : shardList)
    for (const TensorEntry &tensor : shard.file.tensors()) {
      auto named = weightMap.find(tensor.name);
      if (named == weightMap.end()) {
        strays.emplace(tensor.name, shard.name);
        continue;
      }
      if (named->second != shard.name)
        throw Error(fmt::format("{}: tensor {} is stored twice", place.pathOf(shard.name),
                                printable(tensor.name)),
                    fmt::format("{}, tensor {}", place.pathOf(shard.name), printable(tensor.name)),
                    fmt::format("this file holds the tensor although the index puts it in {} "
                                "(duplicate)",
                                printable(named->second)),
                    "remove one of the two, or correct the index");
      byName.emplace(tensor.name, Tensor{&tensor, &shard});
    }
  for (const auto &[tensor, shard] : weightMap)
    if (!byName.contains(tensor))
      throw Error(fmt::format("{}: tensor {} is missing", place.pathOf(shard), printable(tensor)),
                  fmt::format("{}, tensor {}", place.pathOf(shard), printable(tensor)),
                  "the index puts the tensor in this file; the file does not have it",
                  "fetch the file and the index again");
}

void Checkpoint::checkTotal(uint64_t promised) {
  uint64_t stored = 0;
  for (const auto &[name, tensor] : byName)
    stored += tensor.entry->byteCount();
  if (stored != promised)
    warningList.push_back(
        fmt::format("{}: metadata.total_size is {} bytes, the tensors that it names have {}",
                    place.pathOf(indexFileName), promised, stored));
}

const Checkpoint::Tensor *Checkpoint::find(std::string_view name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &found->second;
}

std::span<const std::byte> Checkpoint::data(const Tensor &tensor) const {
  return tensor.shard->file.data(*tensor.entry);
}

std::string Checkpoint::fileOf(const Tensor &tensor) const {
  return place.pathOf(tensor.shard->name);
}

} // namespace m3c
