#include "runtime/checkpoint/Dtype.h"

#include <array>

namespace m3c {
namespace {

struct Row {
  Dtype dtype;
  std::string_view name;
  unsigned bits;
};

// In the order of the enum; dtypeName and dtypeBits index by it.
constexpr std::array<Row, 22> rows = {{
    {Dtype::Bool, "BOOL", 8},
    {Dtype::U8, "U8", 8},
    {Dtype::I8, "I8", 8},
    {Dtype::U16, "U16", 16},
    {Dtype::I16, "I16", 16},
    {Dtype::U32, "U32", 32},
    {Dtype::I32, "I32", 32},
    {Dtype::U64, "U64", 64},
    {Dtype::I64, "I64", 64},
    {Dtype::F4, "F4", 4},
    {Dtype::F6E2M3, "F6_E2M3", 6},
    {Dtype::F6E3M2, "F6_E3M2", 6},
    {Dtype::F8E4M3, "F8_E4M3", 8},
    {Dtype::F8E5M2, "F8_E5M2", 8},
    {Dtype::F8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::F8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::F8E8M0, "F8_E8M0", 8},
    {Dtype::F16, "F16", 16},
    {Dtype::Bf16, "BF16", 16},
    {Dtype::F32, "F32", 32},
    {Dtype::F64, "F64", 64},
    {Dtype::C64, "C64", 64},
}};

constexpr bool inEnumOrder() {
  for (size_t i = 0; i < rows.size(); ++i)
    if (size_t(rows[i].dtype) != i)
      return false;
  return size_t(Dtype::C64) + 1 == rows.size();
}
static_assert(inEnumOrder());

} // namespace

std::string_view dtypeName(Dtype dtype) { return rows[size_t(dtype)].name; }
unsigned dtypeBits(Dtype dtype) { return rows[size_t(dtype)].bits; }

std::optional<Dtype> parseDtype(std::string_view name) {
  for (const Row &row : rows)
    if (row.name == name)
      return row.dtype;
  return std::nullopt;
}

} // namespace m3c
