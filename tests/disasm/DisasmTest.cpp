// Kernels of targets that no machine at hand runs: their machine code has the instructions that
// they were written for and none that says that something went wrong, and so many work items fit a
// multiprocessor as their schedules mean.
#include "compiler/toolchains/CudaCompiler.h"
#include "passes/targets/common/RegisterBudget.h"
#include "passes/targets/common/Target.h"
#include "tests/numerics/Scene.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <regex>

using namespace m3c;
using namespace m3c::numerics;

namespace {

/// What the machine code of a kernel is held to. Patterns are regular expressions on the lines of
/// the disassembly.
struct Row {
  const char *chip, *family;
  int64_t indexHeads, rows;
  bool sparse;
  std::vector<const char *> mustHave, mustNotHave;
  int64_t workItems; ///< of a multiprocessor, as the schedule means it
  std::vector<std::string> schedule = {};
  bool fp8 = false; ///< the cache; else NVFP4
  bool bf16 = true; ///< with an FP8 cache: activations, else FP32
};

void PrintTo(const Row &row, std::ostream *out) {
  *out << row.chip << " " << row.family << ", " << row.rows << " rows, " << row.indexHeads
       << " index heads" << (row.sparse ? "" : ", dense") << (row.fp8 ? ", FP8" : "")
       << (row.bf16 ? "" : ", FP32 activations");
  for (const std::string &choice : row.schedule)
    *out << ", " << choice;
}

constexpr const char *local = "\\b(LDL|STL)\\b"; // memory in place of registers

using Patterns = std::vector<const char *>;
const Patterns none = {local};
const Patterns multiplied = {"QMUL4.*SATFINITE", "HMMA\\.16816\\.F32", "UBLKCP"};
const Patterns tensorScores = {"QMUL4.*SATFINITE", "UTCQMMA", "LDTM", "STTM", "UBLKCP"};
const Patterns pairScores = {"QMUL4.*SATFINITE", "UTCQMMA\\.2CTA", "UTCBAR\\.2CTA\\.MULTICAST",
                             "UTCATOMSWS\\.2CTA", "UCGABAR_WAIT"};
const Patterns tensorAttention = {"QMUL4.*SATFINITE", "UTCQMMA", "UTCHMMA", "LDTM", "STTM"};
const Patterns tensorDetour = {"F2FP\\.F16\\.E2M1", "F2FP\\.\\S*E4M3\\.F16", "UTCQMMA"};
const Patterns exact = {"HMUL2", "F2FP\\.F16\\.E2M1", "HMMA\\.16816\\.F32"};
const Patterns byGroups = {"FHFMA2\\.F32x2\\.F16x2", "F2FP\\.F16\\.E2M1", "HMMA\\.16816\\.F32"};
const Patterns byTable = {"HMMA\\.16816\\.F32", "F2FP\\.F16\\.E4M3", "UBLKCP"};

/// Of kernels whose roles give each other registers.
Patterns budgeted(Patterns patterns) {
  patterns.insert(patterns.end(), {"USETMAXREG\\.TRY_ALLOC", "USETMAXREG\\.DEALLOC"});
  return patterns;
}

const Patterns waveScores = {"v_mfma_f32_16x16x128_f8f6f4", "v_perm_b32",
                             "global_load_lds_dwordx4"};
const Patterns waveAttention = {"v_mfma_f32_16x16x128_f8f6f4", "v_mfma_f32_16x16x32_f16",
                                "v_perm_b32", "global_load_lds_dwordx4"};
const Patterns fp8Attention = {"v_mfma_f32_16x16x32_f16", "v_cvt_scalef32_pk_f16_fp8",
                               "global_load_lds_dwordx4"};
const Patterns fp8Products = {"HMMA\\.16816\\.F32", "F2FP\\.F16\\.E4M3", "UBLKCP"};
const Patterns notOnWaves = {"\\bscratch_", "\\bflat_(load|store|atomic)"};

const Row rowTable[] = {
    // FP4 products by one instruction.
    {"sm_100a", "index_score", 1, 1, true, multiplied, {local, "HMUL2"}, 1},
    {"sm_103a", "index_score", 1, 16, true, multiplied, none, 1},
    // The same into tensor memory.
    {"sm_103a", "index_score", 2, 8, true, tensorScores, {local, "USETMAXREG"}, 2},
    // 32 columns: roles share registers out, so that two work items fit a multiprocessor.
    {"sm_100a", "index_score", 4, 8, true, budgeted(tensorScores), none, 2},
    {"sm_103a", "index_score", 2, 16, true, budgeted(tensorScores), none, 2},
    // Blocks of two tiles of rows, shared out together.
    {"sm_100a", "index_score", 4, 16, true, budgeted(tensorScores), none, 2},
    // Products of two work items.
    {"sm_100a",
     "index_score",
     2,
     8,
     true,
     pairScores,
     {local, "UTCQMMA ", "UTCBAR "},
     2,
     {"index_score.pair=1"}},
    {"sm_103a",
     "index_score",
     4,
     8,
     true,
     budgeted(pairScores),
     {local, "UTCQMMA ", "UTCBAR "},
     2,
     {"index_score.pair=1"}},
    {"sm_100a", "attention", 4, 1, true, tensorAttention, none, 1},
    {"sm_100a", "attention", 4, 8, false, tensorAttention, none, 1},
    {"sm_103a", "attention", 4, 8, true, tensorAttention, none, 1},
    // The same by way of FP16.
    {"sm_100a",
     "index_score",
     4,
     8,
     true,
     tensorDetour,
     {local, "QMUL4"},
     1,
     {"index_score.product=2"}},
    // As for compilers that cannot multiply codes.
    {"sm_103a",
     "index_score",
     2,
     8,
     true,
     budgeted(tensorDetour),
     {local, "QMUL4"},
     2,
     {"index_score.product=2", "index_score.score_registers=80",
      "index_score.dequantise_registers=88", "index_score.feed_registers=72"}},
    {"sm_103a",
     "attention",
     4,
     1,
     true,
     tensorDetour,
     {local, "QMUL4"},
     1,
     {"attention.product=2"}},
    {"sm_100a", "block_topk", 4, 8, true, {"BAR"}, none, 1},
    // Scales after the products for few rows of one head, else FP16 products.
    {"sm_107a", "index_score", 1, 4, true, byGroups, {local, "HMUL2", "E4M3\\.F16"}, 3},
    {"sm_107a", "index_score", 1, 8, true, exact, {local, "FHFMA2"}, 3},
    {"sm_107a", "index_score", 4, 4, true, exact, {local, "FHFMA2"}, 3},
    // 32 columns: twelve warps score with the registers that four others give up.
    {"sm_107a", "index_score", 4, 8, true, budgeted(exact), none, 1},
    {"sm_107a", "index_score", 2, 16, true, budgeted(exact), none, 1},
    {"sm_107a", "attention", 4, 1, true, byTable, none, 3},
    {"sm_107a", "attention", 1, 1, false, byTable, none, 3},
    // Flat.
    {"sm_107a", "attention", 1, 8, true, byTable, none, 2},
    {"sm_107a", "attention", 4, 16, true, byTable, none, 2},
    {"sm_107a", "attention", 4, 16, false, byTable, none, 2},
    {"sm_107a", "attention", 4, 16, true, byTable, none, 3, {"attention.flat=0"}},
    // Blocks of several tiles of rows, each tile with parts of its own.
    {"sm_107a", "index_score", 4, 8, true, budgeted(exact), none, 1, {"index_score.all_rows=0"}},
    // Sixteen waves of a compute unit; with pages that rows share four waves, with all
    // registers.
    {"gfx950", "index_score", 1, 1, true, waveScores, notOnWaves, 1},
    {"gfx950", "index_score", 4, 16, true, waveScores, notOnWaves, 1},
    {"gfx950", "attention", 4, 1, true, waveAttention, notOnWaves, 1},
    {"gfx950", "attention", 4, 16, false, waveAttention, notOnWaves, 1},
    {"gfx950", "attention", 4, 2, true, waveAttention, notOnWaves, 1},
    {"gfx950", "attention", 4, 4, true, waveAttention, notOnWaves, 1},
    {"gfx950", "attention", 4, 16, true, waveAttention, notOnWaves, 1},
    {"gfx950", "index_score", 4, 8, true, waveScores, notOnWaves, 1, {}, true},
    {"gfx950", "attention", 4, 8, true, fp8Attention, notOnWaves, 1, {}, true},
    {"gfx950", "attention", 4, 1, false, fp8Attention, notOnWaves, 1, {}, true},
    // Queries in FP32, two operands each.
    {"sm_107a", "attention", 4, 1, true, fp8Products, none, 2, {}, true, false},
    {"sm_107a", "attention", 4, 1, true, fp8Products, none, 3, {}, true},
    {"sm_107a", "attention", 4, 16, false, fp8Products, none, 2, {}, true, false},
    {"sm_100a", "attention", 4, 8, true, fp8Products, none, 1, {}, true, false},
    {"gfx950", "attention", 4, 8, true, fp8Attention, notOnWaves, 1, {}, true, false},
    {"gfx950", "attention", 4, 4, false, fp8Attention, notOnWaves, 1, {}, true, false},
};

/// NVRTC 13.5 refuses a text whose registers it cannot set as they are asked for, so what is built
/// begins with as many as passes and emulator take for granted.
void checkBudgets(const std::string &source, const Chip &chip, const CodeFacts &facts,
                  const hal::KernelShape &shape) {
  std::smatch bounds;
  ASSERT_TRUE(
      std::regex_search(source, bounds, std::regex("__launch_bounds__\\((\\d+), (\\d+)\\)")));
  ASSERT_EQ(std::stoul(bounds[1]), shape.threads);
  EXPECT_EQ(facts.registers,
            registersAtEntry(chip.facts.registers, shape.threads / 32, std::stol(bounds[2])));
}

SceneSpec specOf(const Row &row) {
  SceneSpec spec;
  spec.sparse = row.sparse;
  spec.heads = 4 * row.indexHeads;
  spec.cache.kvHeads = row.indexHeads;
  spec.farPage = false;
  spec.bf16 = row.fp8 && row.bf16;
  if (row.fp8)
    spec.cache.storage = "fp8";
  return spec;
}

/// "HMMA 8, QMUL4 16, …": the instructions that there are, most frequent first.
std::string histogram(const std::string &code) {
  static const std::regex instruction("\\*/\\s+(?:@!?\\w+\\s+)?([A-Z][A-Z0-9]+)");
  std::map<std::string, int> counts;
  for (std::sregex_iterator at(code.begin(), code.end(), instruction), end; at != end; ++at)
    ++counts[(*at)[1]];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto &[name, count] : counts)
    sorted.emplace_back(-count, name);
  std::ranges::sort(sorted);
  std::string text;
  for (const auto &[count, name] : sorted)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, -count);
  return text;
}

std::string firstLine(const std::string &code, const std::regex &pattern) {
  std::smatch match;
  if (!std::regex_search(code, match, pattern))
    return "";
  size_t at = size_t(match.position()), begin = code.rfind('\n', at) + 1, end = code.find('\n', at);
  return code.substr(begin, end - begin);
}

class Disassembly : public testing::TestWithParam<Row> {};

TEST_P(Disassembly, IsWhatTheKernelWasWrittenFor) {
  const Row &row = GetParam();
  auto [target, chip] = findChip(row.chip);
  ASSERT_NE(target->inspector().name, "") << target->inspector().absence;
  KernelProgram program(Scene::module(specOf(row)), row.chip, row.rows, row.schedule);
  int found = 0;
  for (const auto &[name, kernel] : program.kernels) {
    if (!name.starts_with(row.family) || kernel.standsIn)
      continue;
    ++found;
    SCOPED_TRACE(name);
    std::vector<std::byte> object = target->build(name, kernel.source, *chip);
    std::string code = target->disassemble(name, object);
    for (const char *pattern : row.mustHave)
      EXPECT_NE(firstLine(code, std::regex(pattern)), "")
          << "no instruction /" << pattern << "/; there are " << histogram(code);
    for (const char *pattern : row.mustNotHave)
      EXPECT_EQ(firstLine(code, std::regex(pattern)), "") << "/" << pattern << "/ is forbidden";
    CodeFacts facts = target->facts(name, object);
    EXPECT_EQ(facts.spillBytes, 0u) << "bytes of a thread in memory for want of registers";
    if (kernel.source.find("takeRegisters<") != std::string::npos)
      checkBudgets(kernel.source, *chip, facts, kernel.shape);
    int64_t registers = facts.registers * int64_t(kernel.shape.threads) * row.workItems;
    EXPECT_LE(registers, chip->facts.registers)
        << facts.registers << " registers of " << kernel.shape.threads << " threads, "
        << row.workItems << " work items";
    int64_t shared =
        (int64_t(kernel.shape.sharedBytes) + chip->facts.reservedBytes) * row.workItems;
    EXPECT_LE(shared, chip->facts.unitSharedBytes)
        << kernel.shape.sharedBytes << " bytes of shared memory, " << row.workItems
        << " work items";
  }
  EXPECT_EQ(found, 1) << "kernels of the family";
}

INSTANTIATE_TEST_SUITE_P(Kernels, Disassembly, testing::ValuesIn(rowTable),
                         [](const testing::TestParamInfo<Row> &info) {
                           std::ostringstream text;
                           PrintTo(info.param, &text);
                           std::string name;
                           for (char c : text.str())
                             name += std::isalnum(uint8_t(c)) ? c : '_';
                           return name;
                         });

//===- What the assembler knows ---------------------------------------------------------------===//

/// One instruction in a kernel by itself.
struct Probe {
  const char *name, *text;
  std::map<std::string, const char *> patterns; ///< by chip; a chip that is absent refuses it
};

const char *const probeOfMma = R"(extern "C" __global__ void probe(float *x, unsigned *y) {
  float d[4] = {x[0], x[1], x[2], x[3]};
  asm volatile("mma.sync.aligned.SHAPE.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, OPERANDS, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]),
                 "r"(y[7]), "r"(y[8]), "r"(y[9]), "r"(y[10]), "r"(y[11]));
  x[0] = d[0], x[1] = d[1], x[2] = d[2], x[3] = d[3];
})";

std::string mmaText(const std::string &shape, const std::string &operands) {
  std::string text = probeOfMma;
  text.replace(text.find("SHAPE"), 5, shape);
  text.replace(text.find("OPERANDS"), 8, operands);
  return text;
}

/// docs/targets/sm100-sm107.md has this as a table.
TEST(Assembler, KnowsWhatTheDocumentsSay) {
  const std::string k32 = mmaText("m16n8k32", "{%4,%5,%6,%7}, {%8,%9}");
  const std::string k64 = mmaText("m16n8k64", "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}");
  const char *scaled = R"(extern "C" __global__ void probe(unsigned long long *x) {
  asm volatile("fma.rn.f32x2.f16x2.f32x2.f32x2 %0, %1, %2, %3;"
               : "=l"(x[0]) : "r"((unsigned)x[1]), "l"(x[2]), "l"(x[3]));
})";
  const char *multiplied = R"(extern "C" __global__ void probe(unsigned *x) {
  asm volatile("mul.rn.satfinite.e4m3x4.e2m1x4.e4m3x4 %0, %1, %2;"
               : "=r"(x[0]) : "h"((unsigned short)x[1]), "r"(x[2]));
})";
  const char *tensor = R"(extern "C" __global__ void probe(unsigned *y, unsigned long long *z) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p; }"
               ::"r"(y[0]), "l"(z[0]), "l"(z[1]), "r"(y[1]) : "memory");
})";
  const Probe probes[] = {
      {"mma.sync m16n8k32 e4m3",
       k32.c_str(),
       {{"sm_100a", "HMMA"}, {"sm_103a", "HMMA"}, {"sm_107a", "HMMA"}}},
      {"mma.sync m16n8k64 e4m3", k64.c_str(), {}},
      {"fma.f32x2.f16x2", scaled, {{"sm_107a", "FHFMA2"}}},
      {"mul.e4m3x4.e2m1x4", multiplied, {{"sm_100a", "QMUL4"}, {"sm_103a", "QMUL4"}}},
      {"tcgen05.mma f8f6f4",
       tensor,
       {{"sm_100a", "UTCQMMA"}, {"sm_103a", "UTCQMMA"}, {"sm_107a", "UTCQMMA"}}},
  };
  for (const Probe &probe : probes)
    for (const char *name : {"sm_100a", "sm_103a", "sm_107a"}) {
      SCOPED_TRACE(std::string(probe.name) + " for " + name);
      auto [target, chip] = findChip(name);
      auto known = probe.patterns.find(name);
      ASSERT_EQ(toolchains::cudaBuilds(name, probe.text), known != probe.patterns.end());
      if (known == probe.patterns.end())
        continue;
      std::string code = target->disassemble("probe", target->build("probe", probe.text, *chip));
      EXPECT_NE(firstLine(code, std::regex(known->second)), "") << histogram(code);
      EXPECT_EQ(firstLine(code, std::regex("\\bQMMA\\b")), "");
    }
}

} // namespace
