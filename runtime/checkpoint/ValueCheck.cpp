#include "runtime/checkpoint/ValueCheck.h"

#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace m3c {
namespace {

/// Kernels hold a block scale times 2^120 in FP32, so they take scales below 2^8. A weight of a
/// trained model is far smaller; a larger scale is a damaged file.
constexpr uint8_t firstRefusedExponent = 127 + 8;

template <typename T> T load(const std::byte *bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

/// Index of the first T for which `bad` holds. The inner loop has no exit, so it vectorises.
template <typename T, typename Bad>
std::optional<uint64_t> scan(std::span<const std::byte> bytes, Bad bad) {
  constexpr size_t chunk = 4096;
  size_t count = bytes.size() / sizeof(T);
  for (size_t begin = 0; begin < count; begin += chunk) {
    size_t end = std::min(count, begin + chunk);
    unsigned any = 0;
    for (size_t i = begin; i < end; ++i)
      any |= unsigned(bad(load<T>(bytes.data(), i)));
    if (any)
      for (size_t i = begin; i < end; ++i)
        if (bad(load<T>(bytes.data(), i)))
          return i;
  }
  return std::nullopt;
}

std::optional<uint64_t> findNonFinite(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
  case Dtype::F8E4M3:
    return scan<uint8_t>(bytes, [](uint8_t code) { return (code & 0x7f) == 0x7f; });
  case Dtype::Bf16:
    return scan<uint16_t>(bytes, [](uint16_t bits) { return (bits & 0x7f80) == 0x7f80; });
  case Dtype::F16:
    return scan<uint16_t>(bytes, [](uint16_t bits) { return (bits & 0x7c00) == 0x7c00; });
  case Dtype::F32:
    return scan<uint32_t>(bytes, [](uint32_t bits) { return (bits & 0x7f800000) == 0x7f800000; });
  default:
    return std::nullopt;
  }
}

std::string valueText(Dtype dtype, const std::byte *value) {
  switch (dtype) {
  case Dtype::F32:
    return fmt::format("{} (0x{:08x})", load<float>(value, 0), load<uint32_t>(value, 0));
  case Dtype::Bf16:
    return fmt::format("{} (0x{:04x})", formats::bf16ToFloat(load<uint16_t>(value, 0)),
                       load<uint16_t>(value, 0));
  case Dtype::F16:
    return fmt::format("NaN or infinite (0x{:04x})", load<uint16_t>(value, 0));
  case Dtype::F8E4M3:
    return fmt::format("{} (0x{:02x})", formats::e4m3ToFloat(load<uint8_t>(value, 0)),
                       load<uint8_t>(value, 0));
  default: {
    uint8_t code = load<uint8_t>(value, 0);
    std::string number = code == 0xff ? "NaN" : fmt::format("2^{}", int(code) - 127);
    return fmt::format("{} ({}, 0x{:02x})", number, code, code);
  }
  }
}

std::string_view ruleText(ValueRule rule) {
  switch (rule) {
  case ValueRule::BlockScale:
    return "a block scale must be a positive, finite E4M3 number";
  case ValueRule::Exponent:
    return "a block scale must not be 255, the NaN of E8M0, and must be below 2^8 (code 135)";
  case ValueRule::TensorScale:
    return "a per-tensor scale must be a positive, finite number";
  default:
    return "a weight must be finite, not NaN and not infinite";
  }
}

/// Piece of a tensor that is read at once, in bytes; a multiple of every element size.
constexpr uint64_t pieceBytes = 4 << 20;

void readAndCheck(const MappedFile &file, const TensorEntry &tensor, uint64_t dataBegin,
                  std::vector<std::byte> &buffer,
                  const std::function<void(uint64_t bytes)> &advance) {
  for (uint64_t at = tensor.begin; at < tensor.end; at += pieceBytes) {
    uint64_t count = std::min(pieceBytes, tensor.end - at);
    std::span<std::byte> piece(buffer.data(), count);
    file.read(dataBegin + at, piece);
    checkValues(file.name(), tensor, piece, (at - tensor.begin) * 8 / dtypeBits(tensor.dtype));
    advance(count);
  }
}

} // namespace

ValueRule valueRule(std::string_view name, Dtype dtype) {
  std::string_view last = name.substr(name.rfind('.') + 1);
  bool isScale = last.find("scale") != last.npos;
  switch (dtype) {
  case Dtype::U8:
    return last == "weight_scale_inv" || last == "weight_scale" ? ValueRule::Exponent
                                                                : ValueRule::None;
  case Dtype::F8E8M0:
    return ValueRule::Exponent;
  case Dtype::F8E4M3:
    return isScale ? ValueRule::BlockScale : ValueRule::Finite;
  case Dtype::F32:
    return isScale ? ValueRule::TensorScale : ValueRule::Finite;
  case Dtype::Bf16:
  case Dtype::F16:
    return ValueRule::Finite;
  default:
    return ValueRule::None;
  }
}

std::optional<uint64_t> findBadValue(ValueRule rule, Dtype dtype,
                                     std::span<const std::byte> bytes) {
  switch (rule) {
  case ValueRule::None:
    return std::nullopt;
  case ValueRule::Finite:
    return findNonFinite(dtype, bytes);
  case ValueRule::BlockScale: // 1..0x7e are the positive numbers
    return scan<uint8_t>(bytes, [](uint8_t code) { return uint8_t(code - 1) >= 0x7e; });
  case ValueRule::Exponent:
    return scan<uint8_t>(bytes, [](uint8_t code) { return code >= firstRefusedExponent; });
  case ValueRule::TensorScale: // bits of positive finite numbers are 1..0x7f7fffff
    return scan<uint32_t>(bytes, [](uint32_t bits) { return bits - 1 >= 0x7f7fffff; });
  }
  return std::nullopt;
}

void checkValues(const std::string &file, const TensorEntry &tensor,
                 std::span<const std::byte> bytes, uint64_t firstElement) {
  ValueRule rule = valueRule(tensor.name, tensor.dtype);
  std::optional<uint64_t> bad = findBadValue(rule, tensor.dtype, bytes);
  if (!bad)
    return;
  std::string value = valueText(tensor.dtype, bytes.data() + *bad * (dtypeBits(tensor.dtype) / 8));
  std::string name = printable(tensor.name);
  throw Error(fmt::format("{}: tensor {} holds a bad value", file, name),
              fmt::format("{}, tensor {}, element {} of shape {}", file, name, firstElement + *bad,
                          shapeText(tensor.shape)),
              fmt::format("found {}; {}", value, ruleText(rule)),
              "fetch the file again, or quantise the model again");
}

void checkAllValues(const Checkpoint &checkpoint, const CheckProgress &progress) {
  uint64_t total = 0, done = 0;
  for (const Checkpoint::Shard &shard : checkpoint.shards())
    total += shard.file.file().size() - shard.file.header().dataBegin;
  std::vector<std::byte> buffer(std::min(pieceBytes, total));
  for (const Checkpoint::Shard &shard : checkpoint.shards())
    for (const TensorEntry &tensor : shard.file.tensors())
      readAndCheck(shard.file.file(), tensor, shard.file.header().dataBegin, buffer,
                   [&](uint64_t bytes) {
                     done += bytes;
                     progress(done, total, shard.name);
                   });
}

} // namespace m3c
