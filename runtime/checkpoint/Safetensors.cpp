#include "runtime/checkpoint/Safetensors.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

/// Errors about one file; `tensor` may be empty.
struct Reader {
  const std::string &file;

  [[noreturn]] void fail(std::string_view tensor, std::string why) const {
    std::string name = printable(tensor);
    throw Error(tensor.empty() ? fmt::format("{}: broken safetensors file", file)
                               : fmt::format("{}: tensor {} is broken", file, name),
                tensor.empty() ? file : fmt::format("{}, tensor {}", file, name), std::move(why),
                "fetch or write the file again");
  }

  std::string_view headerText(std::span<const std::byte> bytes) const;
  TensorEntry entry(const std::string &name, const json &value, uint64_t dataBytes) const;
  std::vector<int64_t> shape(const std::string &name, const json &value) const;
  void offsets(TensorEntry &tensor, const json &value, uint64_t dataBytes) const;
  void checkTiling(const std::vector<TensorEntry> &tensors, uint64_t dataBytes,
                   uint64_t fileBytes) const;
  std::map<std::string, std::string> metadata(const json &value) const;
};

std::string_view Reader::headerText(std::span<const std::byte> bytes) const {
  if (bytes.empty())
    fail("", "the file is empty (0 bytes)");
  if (bytes.size() < 8)
    fail("", fmt::format("the file has {} bytes; the header length alone needs 8", bytes.size()));
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8)
    fail("", fmt::format("truncated file or wrong header length: the header length is {}, and the "
                         "file has only {} bytes",
                         length, bytes.size()));
  if (length > maxSafetensorsHeader)
    fail("", fmt::format("the header length is {}, the largest allowed is {}", length,
                         maxSafetensorsHeader));
  std::string_view text(reinterpret_cast<const char *>(bytes.data()) + 8, length);
  if (!text.starts_with('{'))
    fail("", "the header does not begin with \"{\": JSON is expected at byte 8");
  return text;
}

std::vector<int64_t> Reader::shape(const std::string &name, const json &value) const {
  if (!value.is_array())
    fail(name, fmt::format("shape: a list of integers is expected, found {}", jsonText(value)));
  std::vector<int64_t> dims;
  for (const json &dim : value) {
    if (!dim.is_number_integer())
      fail(name, fmt::format("shape {}: {} is not an integer", jsonText(value), jsonText(dim)));
    if (!dim.is_number_unsigned())
      fail(name, fmt::format("shape {}: negative dimension", jsonText(value)));
    if (dim.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
      fail(name, fmt::format("shape {}: dimension too large, overflows 63 bits", jsonText(value)));
    dims.push_back(dim.get<int64_t>());
  }
  return dims;
}

void Reader::offsets(TensorEntry &tensor, const json &value, uint64_t dataBytes) const {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_integer() ||
      !value[1].is_number_integer())
    fail(tensor.name,
         fmt::format("data_offsets: two integers are expected, found {}", jsonText(value)));
  if (!value[0].is_number_unsigned() || !value[1].is_number_unsigned())
    fail(tensor.name, fmt::format("data_offsets {} are negative", jsonText(value)));
  tensor.begin = value[0].get<uint64_t>();
  tensor.end = value[1].get<uint64_t>();
  if (tensor.begin > tensor.end)
    fail(tensor.name, fmt::format("data_offsets {}: begin after end", jsonText(value)));
  if (tensor.end > dataBytes)
    fail(tensor.name,
         fmt::format("data_offsets {} lie beyond the {} bytes of data: offsets wrong or file "
                     "truncated (smaller than expected)",
                     jsonText(value), dataBytes));
  std::optional<uint64_t> needed = tensorBytes(tensor.dtype, tensor.shape);
  if (!needed)
    fail(tensor.name, fmt::format("shape {} of dtype {}: the size in bytes overflows or is no "
                                  "whole number",
                                  shapeText(tensor.shape), dtypeName(tensor.dtype)));
  if (*needed != tensor.byteCount())
    fail(tensor.name, fmt::format("shape {} of dtype {} needs {} bytes, data_offsets {} give {}",
                                  shapeText(tensor.shape), dtypeName(tensor.dtype), *needed,
                                  jsonText(value), tensor.byteCount()));
}

TensorEntry Reader::entry(const std::string &name, const json &value, uint64_t dataBytes) const {
  if (!value.is_object())
    fail(name, fmt::format("an object with dtype, shape and data_offsets is expected, found {}",
                           jsonText(value)));
  for (const char *key : {"dtype", "shape", "data_offsets"})
    if (!value.contains(key))
      fail(name, fmt::format("key {} is missing", key));
  if (value.size() != 3)
    for (const auto &[key, unused] : value.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail(name, fmt::format("unknown key \"{}\" beside dtype, shape and data_offsets",
                               printable(key)));
  TensorEntry tensor;
  tensor.name = name;
  const json &dtype = value["dtype"];
  std::optional<Dtype> known =
      dtype.is_string() ? parseDtype(dtype.get_ref<const std::string &>()) : std::nullopt;
  if (!known)
    fail(name, fmt::format("unknown dtype {}", jsonText(dtype)));
  tensor.dtype = *known;
  tensor.shape = shape(name, value["shape"]);
  offsets(tensor, value["data_offsets"], dataBytes);
  return tensor;
}

/// `tensors` by ascending (begin, end).
void Reader::checkTiling(const std::vector<TensorEntry> &tensors, uint64_t dataBytes,
                         uint64_t fileBytes) const {
  uint64_t at = 0;
  std::string_view last;
  for (const TensorEntry &tensor : tensors) {
    if (tensor.begin < at)
      fail(tensor.name, fmt::format("data_offsets [{}, {}] overlap tensor {}, which ends at {}",
                                    tensor.begin, tensor.end, printable(last), at));
    if (tensor.begin > at)
      fail(tensor.name,
           fmt::format("hole in the data: data_offsets begin at {}, the tensor before ends at {}",
                       tensor.begin, at));
    at = tensor.end;
    last = tensor.name;
  }
  if (at != dataBytes)
    fail("", fmt::format("the file has {} bytes, the header accounts for {}: {} bytes at the end "
                         "belong to no tensor",
                         fileBytes, fileBytes - dataBytes + at, dataBytes - at));
}

std::map<std::string, std::string> Reader::metadata(const json &value) const {
  if (!value.is_object())
    fail("", "__metadata__: an object is expected");
  std::map<std::string, std::string> out;
  for (const auto &[key, text] : value.items()) {
    if (!text.is_string())
      fail("", fmt::format("__metadata__: the value of \"{}\" is {}, a string is expected",
                           printable(key), jsonKind(text)));
    out[key] = text.get<std::string>();
  }
  return out;
}

} // namespace

std::optional<uint64_t> tensorBytes(Dtype dtype, const std::vector<int64_t> &shape) {
  uint64_t bits = dtypeBits(dtype);
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(bits, uint64_t(dim), &bits))
      return std::nullopt;
  if (bits % 8 != 0)
    return std::nullopt;
  return bits / 8;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsHeader parseSafetensors(std::span<const std::byte> bytes, const std::string &file) {
  Reader reader{file};
  std::string_view text = reader.headerText(bytes);
  json header = parseJson(text, file, {.depth = 4, .values = 4'000'000, .whatIsRead = "header"}, 8);
  SafetensorsHeader out;
  out.dataBegin = 8 + text.size();
  uint64_t dataBytes = bytes.size() - out.dataBegin;
  for (const auto &[name, value] : header.items()) {
    if (name == "__metadata__")
      out.metadata = reader.metadata(value);
    else
      out.tensors.push_back(reader.entry(name, value, dataBytes));
  }
  std::sort(out.tensors.begin(), out.tensors.end(), [](const auto &a, const auto &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  reader.checkTiling(out.tensors, dataBytes, bytes.size());
  return out;
}

SafetensorsFile::SafetensorsFile(MappedFile file)
    : mapped(std::move(file)), head(parseSafetensors(mapped.bytes(), mapped.name())) {
  for (const TensorEntry &tensor : head.tensors)
    byName.emplace(tensor.name, &tensor);
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path &path) {
  return SafetensorsFile(MappedFile::open(path));
}

const TensorEntry *SafetensorsFile::find(std::string_view name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : found->second;
}

std::span<const std::byte> SafetensorsFile::data(const TensorEntry &tensor) const {
  return mapped.bytes().subspan(head.dataBegin + tensor.begin, tensor.byteCount());
}

std::span<const std::byte> SafetensorsFile::headerBytes() const {
  return mapped.bytes().first(head.dataBegin);
}

} // namespace m3c
