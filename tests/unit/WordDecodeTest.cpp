// Packed weight words times their scales, as the CPU's device headers decode them: every code in
// every part of a word, E2M1 with every scale and E4M3 with some of all sizes, against the formats'
// definition, bit for bit.
#include "passes/targets/common/Target.h"
#include "runtime/base/Formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace m3c;

namespace {

constexpr int lanes = 16; // words of a row: the outputs of a panel

/// Rows of words and scale codes, all parts of which a kernel decodes.
struct Words {
  std::vector<uint32_t> words; ///< [rows][lanes]
  std::vector<uint8_t> scales; ///< likewise
  void add(uint32_t word, int scale) {
    words.push_back(word);
    scales.push_back(uint8_t(scale));
  }
};

const char *source = R"(#include "tile.h"
extern "C" __attribute__((visibility("default"))) void
decode(const i32 *words, const u8 *scales, f32 *out, i64 rows) {
  for (i64 row = 0; row < rows; ++row) {
    auto codes = load<i32, 1, 16, 16>(words + row * 16, 0);
    auto scale = @scale@(load<u8, 1, 16, 16>(scales + row * 16, 0));
    M3_UNROLL
    for (i64 part = 0; part < @parts@; ++part)
      store<16>(@words@(codes, part, scale), out + (row * @parts@ + part) * 16, 0);
  }
}
)";

std::string sourceFor(const std::string &scale, const std::string &words, int parts) {
  std::string text = source;
  for (auto [name, value] : {std::pair<std::string, std::string>{"@scale@", scale},
                             {"@words@", words},
                             {"@parts@", std::to_string(parts)}})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, name.size(), value);
  return text;
}

/// [rows][parts][lanes], by code built for `chip` and run here.
std::vector<float> decoded(const Chip &chip, const std::string &text, const Words &in, int parts) {
  std::vector<std::byte> object = findTarget("x86")->build("decode", text, chip);
  int file = memfd_create("decode", 0);
  EXPECT_EQ(write(file, object.data(), object.size()), ssize_t(object.size()));
  void *library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library) << dlerror();
  using Decode = void (*)(const uint32_t *, const uint8_t *, float *, int64_t);
  auto decode = library ? reinterpret_cast<Decode>(dlsym(library, "decode")) : nullptr;
  std::vector<float> out(in.words.size() * size_t(parts), NAN);
  if (decode)
    decode(in.words.data(), in.scales.data(), out.data(), int64_t(in.words.size()) / lanes);
  else
    ADD_FAILURE() << "the object has no decode";
  if (library)
    dlclose(library);
  close(file);
  return out;
}

/// Products are exact, so there is one right answer; the sign of a zero is free.
template <class Value>
void expectProducts(const Chip &chip, const std::string &text, const Words &in, int parts,
                    Value value) {
  std::vector<float> out = decoded(chip, text, in, parts);
  int wrong = 0;
  for (size_t i = 0; i < in.words.size(); ++i)
    for (int part = 0; part < parts; ++part) {
      uint32_t code = in.words[i] >> (32 / parts * part) & ((1u << 32 / parts) - 1);
      float expected = value(uint8_t(code), in.scales[i]);
      float found = out[(i / lanes * size_t(parts) + size_t(part)) * lanes + i % lanes];
      bool same = found == expected && (expected == 0 || std::signbit(found) == (expected < 0));
      if (!same && ++wrong <= 5)
        ADD_FAILURE() << chip.name << ": part " << part << ", code " << code << ", scale code "
                      << int(in.scales[i]) << ": " << found << " in place of " << expected;
    }
  EXPECT_EQ(wrong, 0);
}

/// The CPU's row for this chip, or a reason to skip.
const Chip *chipToRun(const char *name) {
  const Target *target = findTarget("x86");
  for (const Chip &chip : target->chips())
    if (chip.name == name)
      return &chip;
  return nullptr;
}

class WordDecode : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    chip = chipToRun(GetParam());
    ASSERT_TRUE(chip);
    bool runs = std::string(GetParam()) == "x86-avx2" ? __builtin_cpu_supports("avx2")
                                                      : __builtin_cpu_supports("avx512bw");
    if (!runs)
      GTEST_SKIP() << "this machine cannot run " << GetParam();
  }
  const Chip *chip = nullptr;
};

// Scale codes 0 to 126: block scales are neither negative nor NaN. In row s, lane l has scale
// (s + l) mod 127, and its part j holds code (l + j) mod 16.
TEST_P(WordDecode, E2m1TimesUe4m3) {
  Words in;
  for (int s = 0; s < 127; ++s)
    for (int lane = 0; lane < lanes; ++lane) {
      uint32_t word = 0;
      for (int part = 0; part < 8; ++part)
        word |= uint32_t((lane + part) % 16) << 4 * part;
      in.add(word, (s + lane) % 127);
    }
  expectProducts(*chip, sourceFor("decode_ue4m3", "words_e2m1", 8), in, 8,
                 [](uint8_t code, uint8_t scale) {
                   return float(formats::e2m1ToDouble(code) * formats::e4m3ToFloat(scale));
                 });
}

// Scales below 2^8, as weights are checked to have; codes but NaN.
TEST_P(WordDecode, E4m3TimesE8m0) {
  Words in;
  for (int scale : {0, 1, 2, 60, 112, 119, 120, 127, 134})
    for (int first = 0; first < 256; ++first) {
      uint32_t word = 0;
      for (int part = 0; part < 4; ++part) {
        int code = (first + 64 * part) % 256;
        word |= uint32_t((code & 0x7f) == 0x7f ? 0 : code) << 8 * part;
      }
      in.add(word, scale);
    }
  expectProducts(*chip, sourceFor("decode_e8m0", "words_e4m3", 4), in, 4,
                 [](uint8_t code, uint8_t scale) {
                   return float(std::ldexp(double(formats::e4m3ToFloat(code)), int(scale) - 127));
                 });
}

INSTANTIATE_TEST_SUITE_P(Chips, WordDecode, testing::Values("x86-avx2", "x86-avx512"),
                         [](const auto &info) {
                           std::string name = info.param;
                           name[name.find('-')] = '_';
                           return name;
                         });

} // namespace
