#include "runtime/weights/CheckpointSource.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/checkpoint/CheckpointDigests.h"
#include "runtime/checkpoint/ValueCheck.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>

namespace m3c {

CheckpointSource::CheckpointSource(const std::filesystem::path &folder)
    : checkpoint(Checkpoint::open(folder)) {
  if (!checkpoint.hasTensors())
    throw Error(fmt::format("{} holds no tensors", folder.string()), folder.string(),
                "there is neither an index nor a safetensors file",
                "give a checkpoint folder, or --weights synthetic:SEED");
}

void CheckpointSource::check(const plan::WeightPiece &piece) const {
  std::string name = piece.tensor()->str();
  const Checkpoint::Tensor *tensor = checkpoint.find(name);
  const std::string &folder = checkpoint.folder().path();
  if (!tensor)
    throw Error(fmt::format("tensor {} is missing", printable(name)), folder, "the plan needs it",
                "give the checkpoint that the plan was compiled from");
  std::vector<int64_t> shape;
  for (int64_t dimension : plan::list(piece.shape()))
    shape.push_back(dimension);
  if (dtypeName(tensor->entry->dtype) != piece.dtype()->string_view() ||
      tensor->entry->shape != shape)
    throw Error(fmt::format("tensor {} does not fit the plan", printable(name)),
                checkpoint.fileOf(*tensor),
                fmt::format("the plan was compiled for {} {}, the checkpoint has {} {}",
                            piece.dtype()->str(), shapeText(shape), dtypeName(tensor->entry->dtype),
                            shapeText(tensor->entry->shape)),
                "give the checkpoint that the plan was compiled from, or compile this one");
}

void CheckpointSource::read(const plan::WeightPiece &piece, uint64_t offset,
                            std::span<std::byte> to) const {
  const Checkpoint::Tensor &tensor = *checkpoint.find(piece.tensor()->str());
  const SafetensorsFile &file = tensor.shard->file;
  file.file().read(file.header().dataBegin + tensor.entry->begin + offset, to);
  checkValues(checkpoint.fileOf(tensor), *tensor.entry, to,
              offset * 8 / dtypeBits(tensor.entry->dtype));
}

std::string CheckpointSource::configDigest() const {
  if (!checkpoint.folder().has("config.json"))
    return "";
  return CheckpointDigests::of(checkpoint).config;
}

std::string CheckpointSource::configPath() const {
  return checkpoint.folder().pathOf("config.json");
}

} // namespace m3c
