// Products of many rows in shared memory: the machine code has the instruction of four warps, keeps
// one product under way while the next operand is made, and needs no memory in place of registers.
#include "passes/targets/common/Target.h"
#include "tests/numerics/KernelProgram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

using namespace m3c;
using namespace m3c::numerics;

namespace {

/// A weight in each encoding that fragments have, multiplied with 128 rows.
std::string moduleOf(const std::string &encoding, const std::string &parts) {
  return "m3.weight @x : !m3.weight<128x512, bf16> {parts = [#m3.part<values, \"x\", \"BF16\", "
         "[128, "
         "512]>]}\nm3.weight @w : !m3.weight<256x512, " +
         encoding + "> {parts = [" + parts + R"(]}
func.func @step(%batch: !m3.batch) -> tensor<?x256xf32> {
  %x = m3.embed %batch, @x : tensor<?x512xbf16>
  %y = m3.project %x, @w : tensor<?x512xbf16> -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
})";
}

struct Encoded {
  const char *encoding, *parts;
};
const Encoded encodings[] = {
    {"bf16", "#m3.part<values, \"w\", \"BF16\", [256, 512]>"},
    {"mxfp8", "#m3.part<values, \"w\", \"F8_E4M3\", [256, 512]>, #m3.part<block_scale, \"s\", "
              "\"U8\", [256, 16]>"},
    {"nvfp4", "#m3.part<values, \"w\", \"U8\", [256, 256]>, #m3.part<block_scale, \"s\", "
              "\"F8_E4M3\", [256, 32]>, #m3.part<global_scale, \"g\", \"F32\", []>"},
};
void PrintTo(const Encoded &weight, std::ostream *out) { *out << weight.encoding; }

class SharedRowsCode : public testing::TestWithParam<Encoded> {};

TEST_P(SharedRowsCode, KeepsAProductUnderWay) {
  auto [target, chip] = findChip("sm_90a");
  ASSERT_NE(target->inspector().name, "") << target->inspector().absence;
  KernelProgram program(moduleOf(GetParam().encoding, GetParam().parts), "sm_90a", 128,
                        {"project.packed_rows=1"});
  int products = 0;
  for (const auto &[name, kernel] : program.kernels) {
    if (!name.starts_with("project"))
      continue;
    ++products;
    std::vector<std::byte> object = target->build(name, kernel.source, *chip);
    std::string code = target->disassemble(name, object);
    for (const char *pattern :
         {"HGMMA\\.64x128x16\\.F32\\.BF16", "UBLKCP", "WARPGROUP\\.DEPBAR\\.LE gsb0, 0x1"})
      EXPECT_TRUE(std::regex_search(code, std::regex(pattern))) << pattern;
    for (const char *pattern : {"\\b(LDL|STL)\\b", "HMMA\\.16816"})
      EXPECT_FALSE(std::regex_search(code, std::regex(pattern))) << pattern;
    // Were each instruction waited for, as where registers do not suffice, there would be as many.
    auto count = [&](const char *pattern) {
      std::regex wanted(pattern);
      return std::distance(std::sregex_iterator(code.begin(), code.end(), wanted), {});
    };
    EXPECT_LT(count("WARPGROUP\\.DEPBAR"), count("\\bHGMMA"));
    CodeFacts facts = target->facts(name, object);
    EXPECT_EQ(facts.spillBytes, 0u);
    EXPECT_LE(facts.registers, 168u); // of nine warps, three on a quarter of a multiprocessor
  }
  EXPECT_EQ(products, 1);
}

INSTANTIATE_TEST_SUITE_P(Kernels, SharedRowsCode, testing::ValuesIn(encodings),
                         [](const testing::TestParamInfo<Encoded> &info) {
                           return info.param.encoding;
                         });

} // namespace
