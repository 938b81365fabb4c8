// Reads a model folder into what the compiler works on. Only config.json, the index, the headers of
// the shards and the tokenizer are read; no tensor is.
#pragma once

#include "models/minimax_m3/WeightMap.h"
#include "runtime/base/Checkpoint.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace m3c {

struct ImportOptions {
  bool strict = false; ///< refuse keys and tensors that m3c does not know
};

/// XXH3-128 of what was read, as 32 hexadecimal digits.
struct ImportDigests {
  struct Shard {
    std::string name;
    std::string header; ///< of length field and JSON header
    uint64_t bytes;     ///< size of the file
  };
  std::string config;
  std::string index;     ///< empty without an index file
  std::string tokenizer; ///< empty without tokenizer.json
  std::vector<Shard> shards;

  /// One digest of config, index and all headers: equal inputs of a compilation have it equal.
  std::string all() const;
};

struct ImportedModel {
  std::string folder;
  ModelConfig config;
  std::vector<Weight> weights;
  Findings findings;
  ImportDigests digests;
  /// The open headers; `hasTensors()` is false for a folder with config.json alone, whose weights
  /// are synthetic.
  std::shared_ptr<const Checkpoint> checkpoint;
};

/// Throws Error for anything that a correct model folder does not have.
ImportedModel importModel(const std::filesystem::path &folder, const ImportOptions &options = {});

} // namespace m3c
