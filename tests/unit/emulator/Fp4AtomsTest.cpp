// Conversions of E2M1, products with its scales and the mixed multiply-add in the emulator, against
// vectors from an outside simulator (tests/data/atoms).
#include "tests/unit/emulator/Bench.h"

#include "runtime/checkpoint/Safetensors.h"

#include <cstring>

using namespace m3c;
using namespace m3c::test;

namespace {

template <class T> std::vector<T> vectorOf(const std::string &file, const std::string &name) {
  auto table = SafetensorsFile::open(std::string(M3C_ATOMS) + "/" + file + ".safetensors");
  std::span<const std::byte> data = table.data(*table.find(name));
  std::vector<T> values(data.size() / sizeof(T));
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

/// Runs `body` with thread i = 0, 32, … for each element of `in` (u32 *in, u32 *out).
template <class T>
std::vector<uint32_t> each(const std::string &target, const std::vector<T> &in, size_t results,
                           const std::string &body) {
  std::vector<std::byte> given = bytesOf(in), out(results * 4);
  runEmulated({"each",
               "#include \"tile.h\"\nextern \"C\" __global__ void each(const u32 *in, u32 *out) {\n"
               "  for (u32 i = threadIdx.x; i < " +
                   std::to_string(results) + "; i += 32) {\n" + body + "  }\n}\n",
               32,
               0,
               {1, 1, 1},
               1,
               target},
              {&given, &out});
  return valuesOf<uint32_t>(out);
}

TEST(Fp4Atoms, E2m1ToF16) {
  auto in = vectorOf<uint8_t>("fp4", "f16_of_e2m1.a");
  auto expected = vectorOf<uint32_t>("fp4", "f16_of_e2m1.d");
  std::vector<uint32_t> words;
  for (size_t i = 0; i < in.size(); ++i) // in byte i % 4, others filled
    words.push_back(0x5a5a5a5au ^ (0x5au ^ in[i]) << 8 * (i % 4));
  for (const char *target : {"sm100", "sm107"})
    EXPECT_EQ(each(target, words, words.size(),
                   "storeAt(out + i, f16OfE2m1(loadAt(in + i), (int)(i % 4)));\n"),
              expected);
}

TEST(Fp4Atoms, F16ToE4m3) {
  auto in = vectorOf<uint32_t>("fp4", "e4m3_of_f16.a");
  auto expected = vectorOf<uint16_t>("fp4", "e4m3_of_f16.d");
  std::vector<uint32_t> got =
      each("sm100", in, in.size(), "storeAt(out + i, e4m3OfF16(loadAt(in + i)));\n");
  for (size_t i = 0; i < in.size(); ++i)
    for (int part = 0; part < 2; ++part) {
      uint8_t have = uint8_t(got[i] >> 8 * part), want = uint8_t(expected[i] >> 8 * part);
      if ((want & 0x7f) == 0x7f) // NaN of any sign
        EXPECT_EQ(have & 0x7f, 0x7f) << std::hex << in[i];
      else
        EXPECT_EQ(have, want) << std::hex << in[i];
    }
}

/// Products by way of FP16 are those of the one instruction, for every code and scale.
TEST(Fp4Atoms, TheDetourGivesTheProductsOfTheInstruction) {
  auto table = vectorOf<uint8_t>("multiply_e2m1_e4m3", "satfinite");
  std::vector<uint32_t> none(1);
  std::vector<uint32_t> got =
      each("sm100", none, 256 * 4,
           "const u32 first = 4 * (i % 4), scale = DetourProduct::scale((u8)(i / 4));\n"
           "const u32 four = first | (first + 1) << 4 | (first + 2) << 8 | (first + 3) << 12;\n"
           "storeAt(out + i, DetourProduct::codes(four << 16, 1, scale));\n");
  for (unsigned scale = 0; scale < 256; ++scale)
    for (unsigned code = 0; code < 16; ++code) {
      auto have = uint8_t(got[scale * 4 + code / 4] >> code % 4 * 8);
      uint8_t want = table[code * 256 + scale];
      if ((want & 0x7f) == 0x7f)
        EXPECT_EQ(have & 0x7f, 0x7f) << code << " " << scale;
      else
        EXPECT_EQ(have, want) << code << " " << scale;
    }
}

TEST(Fp4Atoms, MixedMultiplyAdd) {
  auto a = vectorOf<uint16_t>("fp4", "fma_mixed.a");
  auto b = vectorOf<uint32_t>("fp4", "fma_mixed.b"), c = vectorOf<uint32_t>("fp4", "fma_mixed.c"),
       d = vectorOf<uint32_t>("fp4", "fma_mixed.d");
  size_t cases = a.size() / 2;
  std::vector<uint32_t> in;
  for (size_t i = 0; i < cases; ++i)
    in.insert(in.end(), {uint32_t(a[2 * i]) | uint32_t(a[2 * i + 1]) << 16, b[2 * i], b[2 * i + 1],
                         c[2 * i], c[2 * i + 1]});
  std::vector<uint32_t> got =
      each("sm107", in, 2 * cases,
           "const u32 *v = in + 5 * (i / 2);\n"
           "f32 x = bitsAs<f32>(loadAt(v + 3)), y = bitsAs<f32>(loadAt(v + 4));\n"
           "fmaMixed(x, y, loadAt(v), bitsAs<f32>(loadAt(v + 1)), bitsAs<f32>(loadAt(v + 2)));\n"
           "storeAt(out + i, bitsAs<u32>(i % 2 ? y : x));\n");
  for (size_t i = 0; i < 2 * cases; ++i) {
    auto isNan = [](uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; };
    if (isNan(d[i]))
      EXPECT_TRUE(isNan(got[i])) << i;
    else
      EXPECT_EQ(got[i], d[i]) << i;
  }
}

} // namespace
