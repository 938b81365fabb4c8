// A model folder in Hugging Face layout: `model.safetensors.index.json` with shards, or a single
// `model.safetensors`, or neither (a folder with `config.json` alone, for synthetic weights).
// Opening reads headers only. Nothing outside the folder is opened.
#pragma once

#include "runtime/base/Hash.h"
#include "runtime/checkpoint/Safetensors.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace m3c {

/// A folder whose files are opened by name, each checked to lie inside.
class ModelFolder {
public:
  /// Throws Error when `path` is no folder.
  explicit ModelFolder(const std::filesystem::path &path);

  const std::string &path() const { return shown; }
  /// `name` with the folder before it, as messages show it.
  std::string pathOf(std::string_view name) const;
  bool has(std::string_view name) const;
  /// Opens a regular file of the folder. A name that is absolute or has "..", a symbolic link that
  /// leaves the folder and a missing file throw Error; the first two before anything is opened.
  /// `namedBy` is the file that holds the name, for the message; empty when m3c itself asks.
  MappedFile open(std::string_view name, std::string_view namedBy = "") const;
  /// A folder inside this one, under the same rules.
  ModelFolder subfolder(std::string_view name) const;
  /// The folder's own safetensors files, by name.
  std::vector<std::string> safetensorsFiles() const;

private:
  std::filesystem::path resolve(std::string_view name, std::string_view namedBy) const;

  std::string shown;
  std::filesystem::path real;
};

class Checkpoint {
public:
  struct Shard {
    std::string name; ///< as the index has it
    SafetensorsFile file;
    Digest128 headerDigest; ///< of length field and header text
  };
  struct Tensor {
    const TensorEntry *entry;
    const Shard *shard;
  };

  /// Reads the index and every header. Throws Error for a shard that is missing, broken or outside
  /// the folder, for a tensor that the index promises and the shard lacks, and for one that a
  /// second shard holds as well.
  static Checkpoint open(const std::filesystem::path &folder);
  explicit Checkpoint(ModelFolder folder);

  const ModelFolder &folder() const { return place; }
  /// False for a folder that has neither index nor safetensors files.
  bool hasTensors() const { return !shards().empty(); }
  const std::vector<Shard> &shards() const { return shardList; }
  /// All tensors that the index names, by name.
  const std::map<std::string_view, Tensor> &tensors() const { return byName; }
  /// Null when there is no such tensor.
  const Tensor *find(std::string_view name) const;
  /// The tensor's bytes in the mapping; no alignment is promised.
  std::span<const std::byte> data(const Tensor &tensor) const;
  /// "FOLDER/SHARD", for messages.
  std::string fileOf(const Tensor &tensor) const;

  /// Tensors that a shard holds and the index does not name: tensor name -> shard name. They are
  /// not read.
  const std::map<std::string, std::string> &unindexed() const { return strays; }
  /// Digest of the index file; nothing for a single model.safetensors.
  const std::optional<Digest128> &indexDigest() const { return index; }
  const std::vector<std::string> &warnings() const { return warningList; }

private:
  void readIndex();
  void addShard(const std::string &name, std::string_view namedBy);
  void bind(const std::map<std::string, std::string> &weightMap);
  void checkTotal(uint64_t promised);

  ModelFolder place;
  std::vector<Shard> shardList;
  std::map<std::string_view, Tensor> byName;
  std::map<std::string, std::string> strays;
  std::optional<Digest128> index;
  std::vector<std::string> warningList;
};

inline constexpr const char *indexFileName = "model.safetensors.index.json";

} // namespace m3c
