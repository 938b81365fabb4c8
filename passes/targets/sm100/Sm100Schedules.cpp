#include "passes/targets/sm100/Sm100Schedules.h"

#include "compiler/toolchains/CudaCompiler.h"
#include "passes/targets/common/WorkPlan.h"
#include "passes/targets/common/gpu/FlatRing.h"
#include "passes/targets/common/gpu/PlainSchedules.h"
#include "passes/targets/common/gpu/ScoreParts.h"
#include "passes/targets/common/nvidia/NvidiaSchedules.h"

namespace m3c {
namespace {

/// Attention in tensor memory. Four pages in flight, raw and dequantised, fill the shared memory of
/// a multiprocessor (18 KiB and 32 KiB each). Parts as those of the kernels by mma.sync.
Schedule tensorAttention(const Schedule &problem, const Chip &chip) {
  int64_t rows = problem.at("rows"), kvHeads = problem.at("kv_heads");
  int64_t units = chip.facts.units, selected = problem.at("selected");
  int64_t parts =
      selected ? partsOfSelection(units, rows * kvHeads) : partsFor(units, rows * kvHeads);
  Schedule schedule = {{"stages", 4},
                       {"tensor_stages", 4},
                       {"parts", parts},
                       {"soften_registers", 0},
                       {"dequantise_registers", 0},
                       {"feed_registers", 0},
                       {"flat", 0}};
  if (int64_t flat = flatPartsFor(problem, {units})) {
    schedule["parts"] = flat;
    schedule["flat"] = 1;
    schedule["merge"] = 12;
  }
  return schedule;
}

/// Block scores in tensor memory: two work items of a multiprocessor. Rows fill 16 or 32 columns;
/// with 32 the roles share registers out, since 96 for every warp would leave 24 bytes in memory
/// (NVRTC 13.5). So they do where codes go by way of FP16, since compilers that cannot multiply
/// them would leave 8 and 40 bytes in memory (NVRTC 13.0; 8 of 16 columns 12.9).
Schedule tensorScores(const Schedule &problem, const Chip &chip, bool multiplies) {
  constexpr int64_t residents = 2;
  int64_t heads = problem.at("heads"), rows = problem.at("rows");
  bool wide = rows * heads > 16;
  int64_t columns = wide ? 32 : 16;
  int64_t tiles = (rows * heads + columns - 1) / columns;
  struct Registers {
    int64_t score, dequantise, feed;
  };
  Registers registers = wide ? Registers{104, 88, 48} : Registers{};
  if (!multiplies)
    registers = wide ? Registers{88, 88, 64} : Registers{80, 88, 72};
  Schedule schedule = scoreParts(problem, residents * chip.facts.units, tiles);
  schedule.insert({{"columns", columns},
                   {"stages", 4},
                   {"tensor_stages", 4},
                   {"pair", 0},
                   {"residents", residents},
                   {"score_registers", registers.score},
                   {"dequantise_registers", registers.dequantise},
                   {"feed_registers", registers.feed}});
  return schedule;
}

} // namespace

bool sm100Multiplies(const Chip &chip) {
  return toolchains::cudaBuilds(
      chip.name, "extern \"C\" __global__ void probe(unsigned *x) {\n"
                 "  asm(\"mul.rn.satfinite.e4m3x4.e2m1x4.e4m3x4 %0, %1, %2;\" : \"=r\"(x[0])\n"
                 "      : \"h\"((unsigned short)x[1]), \"r\"(x[2]));\n}\n");
}

Schedule sm100Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  if (family == "block_topk")
    return {{"warps", 8}};
  if (isOn(problem, "plain"))
    return family == "index_score" ? plainScores(problem) : plainAttention(problem);
  bool packed = problem.at("cache_bits") == 4, multiplies = packed && sm100Multiplies(chip);
  // One head fills too few columns of scores.
  bool scores = family == "index_score" && problem.at("heads") > 1;
  if (packed && problem.at("tensor") && (scores || family == "attention")) {
    Schedule schedule =
        scores ? tensorScores(problem, chip, multiplies) : tensorAttention(problem, chip);
    schedule["product"] = multiplies ? 1 : 2; // CodeProduct::Multiply, Detour
    return schedule;
  }
  // Rings leave room for tables and queries beside them.
  Schedule schedule = family == "index_score"
                          ? matrixScores(problem, {chip.facts.units, 184 * 1024})
                          : matrixAttention(problem, {chip.facts.units, 168 * 1024});
  if (multiplies)
    schedule["product"] = 1; // CodeProduct::Multiply
  return schedule;
}

} // namespace m3c
