// What identifies a checkpoint without its values: the compiler writes it into a plan, the runtime
// compares it with the folder that it binds.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"

#include <string>
#include <vector>

namespace m3c {

/// XXH3-128 digests as 32 hexadecimal digits.
struct CheckpointDigests {
  struct Shard {
    std::string name;
    std::string header; ///< of length field and JSON header
    uint64_t bytes = 0; ///< size of the file
  };
  std::string config;    ///< of config.json, followed by hf_quant_config.json where there is one
  std::string index;     ///< empty without an index file
  std::string tokenizer; ///< empty without tokenizer.json
  std::vector<Shard> shards;

  /// One digest of config, index and all headers: equal inputs of a compilation have it equal. The
  /// tokenizer is not in it, as no plan depends on it.
  std::string all() const;

  /// Reads config.json, hf_quant_config.json, the index and tokenizer.json; the headers were read
  /// as `checkpoint` was opened. Throws Error when there is no config.json.
  static CheckpointDigests of(const Checkpoint &checkpoint);
};

} // namespace m3c
