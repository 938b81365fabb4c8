// Element types of safetensors files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace m3c {

enum class Dtype : uint8_t {
  Bool,
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  U64,
  I64,
  F4,
  F6E2M3,
  F6E3M2,
  F8E4M3,
  F8E5M2,
  F8E4M3Fnuz,
  F8E5M2Fnuz,
  F8E8M0,
  F16,
  Bf16,
  F32,
  F64,
  C64,
};

/// Safetensors spelling: "BF16", "F8_E4M3", "U8", …
std::string_view dtypeName(Dtype dtype);
/// Bits of one element.
unsigned dtypeBits(Dtype dtype);
/// Nothing for a name that the format does not have.
std::optional<Dtype> parseDtype(std::string_view name);

} // namespace m3c
