// Strict reader and a writer of the safetensors format: 8 bytes of header length (little endian),
// a JSON header, the data. The reader refuses what another reader could read differently.
#pragma once

#include "runtime/base/MappedFile.h"
#include "runtime/checkpoint/Dtype.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace m3c {

/// One tensor of a file; `begin` and `end` are byte offsets in the data section.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::U8;
  std::vector<int64_t> shape; ///< every dimension >= 0; [] is one element
  uint64_t begin = 0, end = 0;

  uint64_t byteCount() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors; ///< by ascending offset
  std::map<std::string, std::string> metadata;
  uint64_t dataBegin = 0; ///< byte offset of the data section in the file
};

/// Longest header that is read, in bytes; the limit of the format's own reader.
inline constexpr uint64_t maxSafetensorsHeader = 100'000'000;

/// Parses the header of a file whose whole content is `bytes`; touches the header only. Checks: the
/// header fits the file; strict JSON; every dtype known; no dimension negative; no product
/// overflows; data_offsets ordered, within the data, as long as dtype and shape need, and tiling
/// the data without overlap or hole up to the last byte of the file. `file` names it in errors.
SafetensorsHeader parseSafetensors(std::span<const std::byte> bytes, const std::string &file);

class SafetensorsFile {
public:
  SafetensorsFile() = default;
  static SafetensorsFile open(const std::filesystem::path &path);
  explicit SafetensorsFile(MappedFile mapped);

  const MappedFile &file() const { return mapped; }
  const SafetensorsHeader &header() const { return head; }
  const std::vector<TensorEntry> &tensors() const { return head.tensors; }
  /// Null when the file has no such tensor.
  const TensorEntry *find(std::string_view name) const;
  /// The tensor's bytes; no alignment is promised, the format has none.
  std::span<const std::byte> data(const TensorEntry &tensor) const;
  /// Length field and JSON text.
  std::span<const std::byte> headerBytes() const;

private:
  MappedFile mapped;
  SafetensorsHeader head;
  std::map<std::string_view, const TensorEntry *> byName;
};

/// Collects tensors and writes them as one file.
class SafetensorsWriter {
public:
  /// Copies `bytes`; their count must be what dtype and shape need, and the name must be new.
  void add(std::string name, Dtype dtype, std::vector<int64_t> shape,
           std::span<const std::byte> bytes);
  template <typename T>
  void add(std::string name, Dtype dtype, std::vector<int64_t> shape, std::span<const T> values) {
    add(std::move(name), dtype, std::move(shape), std::as_bytes(values));
  }
  /// Written under a temporary name beside `path` and renamed: a full disk or an interruption
  /// leaves no half-written file under that name. Equal input gives equal bytes.
  void write(const std::filesystem::path &path) const;

private:
  struct Pending {
    Dtype dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Pending> tensors;
};

/// Bytes of a tensor, or nothing when the count overflows or is no whole number of bytes.
std::optional<uint64_t> tensorBytes(Dtype dtype, const std::vector<int64_t> &shape);

/// "[64, 128]".
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace m3c
