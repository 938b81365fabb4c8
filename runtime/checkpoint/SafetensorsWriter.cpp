#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/checkpoint/Safetensors.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace m3c {

void SafetensorsWriter::add(std::string name, Dtype dtype, std::vector<int64_t> shape,
                            std::span<const std::byte> bytes) {
  std::optional<uint64_t> needed = tensorBytes(dtype, shape);
  if (!needed || *needed != bytes.size())
    throw Error(fmt::format("tensor {} cannot be written", name), name,
                fmt::format("shape {} of dtype {} does not need the {} bytes given",
                            shapeText(shape), dtypeName(dtype), bytes.size()));
  Pending pending{dtype, std::move(shape), {bytes.begin(), bytes.end()}};
  if (!tensors.try_emplace(name, std::move(pending)).second)
    throw Error(fmt::format("tensor {} is written twice", name), name);
}

void SafetensorsWriter::write(const std::filesystem::path &path) const {
  // Widest elements first keeps every tensor aligned to its element, as the data begins at a
  // multiple of 8.
  std::vector<const std::pair<const std::string, Pending> *> order;
  for (const auto &tensor : tensors)
    order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](auto *a, auto *b) {
    unsigned aBits = dtypeBits(a->second.dtype), bBits = dtypeBits(b->second.dtype);
    return aBits != bBits ? aBits > bBits : a->first < b->first;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t at = 0;
  for (auto *tensor : order) {
    const Pending &value = tensor->second;
    header[tensor->first] = {{"dtype", std::string(dtypeName(value.dtype))},
                             {"shape", value.shape},
                             {"data_offsets", {at, at + value.bytes.size()}}};
    at += value.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();

  FileWriter out(path);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  for (auto *tensor : order)
    out.write(tensor->second.bytes);
  out.publish();
}

} // namespace m3c
