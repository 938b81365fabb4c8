// Products of many rows in shared memory, and of rows with pages in shared memory: the machine code
// has the instruction of four warps, keeps one product under way while the next operand is made,
// writes no register that a product under way reads, and needs no memory in place of registers.
#include "passes/targets/common/Target.h"
#include "tests/numerics/Scene.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace m3c;
using namespace m3c::numerics;

namespace {

/// A weight in each encoding that fragments have, multiplied with 128 rows.
std::string moduleOf(const std::string &encoding, const std::string &parts,
                     const std::string &element = "bf16") {
  return "m3.weight @x : !m3.weight<128x512, bf16> {parts = [#m3.part<values, \"x\", \"BF16\", "
         "[128, "
         "512]>]}\nm3.weight @w : !m3.weight<256x512, " +
         encoding + "> {parts = [" + parts +
         "]}\nfunc.func @step(%batch: !m3.batch) -> tensor<?x256xf32> {\n  %x = m3.embed %batch, "
         "@x "
         ": tensor<?x512x" +
         element + ">\n  %y = m3.project %x, @w : tensor<?x512x" + element +
         R"(> -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
})";
}

/// Instructions of a kernel in the order of its text, and where its labels stand.
struct Listing {
  struct Instruction {
    std::string name, operands;
  };
  std::vector<Instruction> instructions;
  std::map<std::string, size_t> labels;

  explicit Listing(const std::string &code) {
    static const std::regex label(R"(^\s*(\.L_x_\d+):)"),
        line(R"(/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);)");
    std::istringstream lines(code);
    for (std::string text; std::getline(lines, text);)
      if (std::smatch match; std::regex_search(text, match, label))
        labels[match[1]] = instructions.size();
      else if (std::regex_search(text, match, line))
        instructions.push_back({match[1], match[2]});
  }

  bool multiplies(size_t i) const { return instructions[i].name.starts_with("HGMMA"); }

  /// From the first product on to the wait for all of them; loops around products twice.
  std::vector<size_t> path() const {
    std::vector<size_t> path;
    size_t i = 0, end = 0;
    while (!multiplies(i))
      ++i;
    for (size_t j = i; j < instructions.size(); ++j)
      if (multiplies(j))
        end = j;
    std::set<size_t> taken;
    for (; i < instructions.size(); ++i) {
      path.push_back(i);
      const auto &[name, operands] = instructions[i];
      if (i > end && name.starts_with("WARPGROUP.DEPBAR") && operands.find("0x0") != operands.npos)
        return path;
      static const std::regex target(R"(`\((\.L_x_\d+)\))");
      std::smatch match;
      if (name != "BRA" || !std::regex_search(operands, match, target))
        continue;
      size_t back = labels.at(match[1]);
      bool isLoop = back < i && back <= end;
      for (size_t j = back; isLoop && !multiplies(j); ++j)
        isLoop = j < i;
      if (isLoop && taken.insert(i).second)
        i = back - 1;
    }
    return path;
  }
};

/// The registers that an instruction writes, of those that move or compute.
std::set<int> written(const Listing::Instruction &instruction) {
  static const std::regex other("^(ST|RED|ATOM|BRA|BAR|SYNCS|ISETP|FSETP|PLOP|R2UR|HGMMA|WARP).*"),
      first(R"(^(?:P\d+,\s*)?R(\d+)\b)");
  std::smatch match;
  if (std::regex_match(instruction.name, other) ||
      !std::regex_search(instruction.operands, match, first))
    return {};
  auto has = [&](const char *part) { return instruction.name.find(part) != std::string::npos; };
  int begin = std::stoi(match[1]), count = has(".128") ? 4 : has(".64") || has("CS2R") ? 2 : 1;
  std::set<int> registers;
  for (int i = 0; i < count; ++i)
    registers.insert(begin + i);
  return registers;
}

/// What writes a register of a left operand (four of an instruction) before the wait for the group
/// of products that reads it.
std::vector<std::string> overwritten(const std::string &code) {
  Listing listing(code);
  std::vector<std::set<int>> groups(1); // under way; the last one is not closed
  std::vector<std::string> found;
  for (size_t i : listing.path()) {
    const auto &instruction = listing.instructions[i];
    if (listing.multiplies(i)) {
      static const std::regex operand(R"(R\d+, R(\d+), )");
      std::smatch match;
      if (std::regex_search(instruction.operands, match, operand))
        for (int r = 0; r < 4; ++r)
          groups.back().insert(std::stoi(match[1]) + r);
      if (instruction.operands.find("gsb0") != std::string::npos)
        groups.emplace_back();
    } else if (instruction.name.starts_with("WARPGROUP.DEPBAR")) {
      size_t leaves = instruction.operands.find("0x1") != std::string::npos;
      while (groups.size() - 1 > leaves)
        groups.erase(groups.begin());
    } else {
      for (int r : written(instruction))
        if (std::ranges::any_of(groups, [&](const auto &group) { return group.count(r); }))
          found.push_back(instruction.name + " " + instruction.operands);
    }
  }
  return found;
}

TEST(OperandsUnderWay, AreSeenToBeOverwritten) {
  const std::string before =
      "/*0010*/ HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR4], R24, gsb0 ;\n";
  const std::string wait = "/*0020*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n";
  const std::string write = "/*0030*/ @P0 IMAD.MOV.U32 R90, RZ, RZ, R4 ;\n";
  EXPECT_TRUE(overwritten(before + wait + write + before + wait).empty());
  EXPECT_EQ(overwritten(before + write + wait).size(), 1u);
  // Only the second time around.
  std::string loop = ".L_x_1:\n/*0040*/ LDG.E.128 R92, desc[UR10][R2.64] ;\n" + before;
  std::string second = "/*0050*/ HGMMA.64x128x16.F32.BF16 R24, R92, gdesc[UR4], R24, gsb0 ;\n";
  std::string one = "/*0060*/ WARPGROUP.DEPBAR.LE gsb0, 0x1 ;\n";
  std::string end = "/*0070*/ @!P0 BRA `(.L_x_1) ;\n" + wait;
  EXPECT_EQ(overwritten(before + one + loop + one + second + end).size(), 4u);
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

/// Choices of which the products differ: parts of K, panels, codes under way.
const std::vector<std::string> shapes[] = {{},
                                           {"project.cluster=1"},
                                           {"project.cluster=1", "project.ahead=4"},
                                           {"project.cluster=2"},
                                           {"project.cluster=1", "project.panels=16"}};

class SharedRowsCode : public testing::TestWithParam<Encoded> {};

TEST_P(SharedRowsCode, WritesNoOperandOfAProductUnderWay) {
  auto [target, chip] = findChip("sm_90a");
  bool isBf16 = std::string(GetParam().encoding) == "bf16";
  for (std::vector<std::string> schedule : shapes) {
    if (isBf16 && schedule.size() == 2) // registers of BF16 codes do not suffice
      continue;
    schedule.push_back("project.packed_rows=1");
    for (const char *element : {"bf16", "f32"}) {
      if (element == std::string("f32"))
        schedule.push_back("project.split_rows=1");
      SCOPED_TRACE(testing::PrintToString(schedule));
      KernelProgram program(moduleOf(GetParam().encoding, GetParam().parts, element), "sm_90a", 128,
                            schedule);
      for (const auto &[name, kernel] : program.kernels)
        if (name.starts_with("project"))
          EXPECT_EQ(
              overwritten(target->disassemble(name, target->build(name, kernel.source, *chip))),
              std::vector<std::string>());
    }
  }
}

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
    bool isBf16 = std::string(GetParam().encoding) == "bf16"; // whose products end one by one
    for (const char *pattern :
         {"HGMMA\\.64x128x16\\.F32\\.BF16", "UBLKCP",
          isBf16 ? "WARPGROUP\\.DEPBAR\\.LE gsb0, 0x0" : "WARPGROUP\\.DEPBAR\\.LE gsb0, 0x1"})
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

/// Sparse attention with pages outside: keys and values are right operands, queries and weights of
/// the softmax left ones. The next queries come while weights are multiplied.
TEST(PagesOutside, HaveTheirOperandsInRegisters) {
  auto [target, chip] = findChip("sm_90a");
  ASSERT_NE(target->inspector().name, "") << target->inspector().absence;
  for (const char *storage : {"nvfp4", "fp8"}) {
    SceneSpec spec;
    spec.bf16 = true;
    spec.cache.kvHeads = 1;
    spec.cache.storage = storage;
    spec.cache.e4m3Grid = std::string(storage) == "nvfp4";
    KernelProgram program(Scene::module(spec), "sm_90a", 1024, {"attention.kv_outer=1"});
    int products = 0;
    for (const auto &[name, kernel] : program.kernels) {
      if (!name.starts_with("attention_"))
        continue;
      SCOPED_TRACE(name);
      std::vector<std::byte> object = target->build(name, kernel.source, *chip);
      EXPECT_EQ(target->facts(name, object).spillBytes, 0u);
      std::string code = target->disassemble(name, object);
      EXPECT_FALSE(std::regex_search(code, std::regex("\\b(LDL|STL)\\b")));
      if (!name.starts_with("attention_products"))
        continue;
      ++products;
      for (const char *pattern : {"HGMMA\\.64x128x16\\.F32\\.BF16", "HGMMA\\.64x136x16\\.F32 "})
        EXPECT_TRUE(std::regex_search(code, std::regex(pattern))) << pattern;
      EXPECT_EQ(overwritten(code), std::vector<std::string>());
      EXPECT_LE(target->facts(name, object).registers, 168u); // three items of four warps
    }
    EXPECT_EQ(products, 1);
  }
}

} // namespace
