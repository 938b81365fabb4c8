#include "runtime/checkpoint/CheckpointDigests.h"

#include "runtime/base/Hash.h"

#include <fmt/format.h>

namespace m3c {

std::string CheckpointDigests::all() const {
  Hasher128 hasher;
  hasher.add(config);
  hasher.add(index);
  for (const Shard &shard : shards)
    hasher.add(fmt::format("\n{}\n{}\n{}", shard.name, shard.header, shard.bytes));
  return hasher.finish().hex();
}

CheckpointDigests CheckpointDigests::of(const Checkpoint &checkpoint) {
  const ModelFolder &folder = checkpoint.folder();
  CheckpointDigests digests;
  Hasher128 config;
  config.add(folder.open("config.json").bytes());
  if (folder.has("hf_quant_config.json"))
    config.add(folder.open("hf_quant_config.json").bytes());
  digests.config = config.finish().hex();
  if (checkpoint.indexDigest())
    digests.index = checkpoint.indexDigest()->hex();
  if (folder.has("tokenizer.json"))
    digests.tokenizer = hash128(folder.open("tokenizer.json").bytes()).hex();
  for (const Checkpoint::Shard &shard : checkpoint.shards())
    digests.shards.push_back({shard.name, shard.headerDigest.hex(), shard.file.file().size()});
  return digests;
}

} // namespace m3c
