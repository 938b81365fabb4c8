#include "passes/targets/sm90/Sm90Schedules.h"

#include "passes/targets/common/gpu/PlainSchedules.h"
#include "passes/targets/common/nvidia/NvidiaSchedules.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <bit>

namespace m3c {
namespace {

/// FP32 rows in two BF16 parts, twice the registers and products: where what becomes of them is
/// handed on as BF16. Others keep the order of additions of the CPU's kernels, so that their
/// results are its bits, unless this is asked for.
bool splitsRows(const Schedule &problem) {
  int64_t form = choiceOf(problem, "split_rows");
  return problem.at("weight_bits") < 32 &&
         (form == askedForm || (form && problem.at("handed_bits") == 16));
}
bool usesMatrices(const Schedule &problem) {
  return problem.at("activation_bits") == 16 || splitsRows(problem);
}

/// Work items of 8 warps that run at once, two on each multiprocessor.
int64_t residentItems(const Chip &chip) { return 2 * chip.facts.units; }

/// As many work items along K as fill the chip, when there are `items` otherwise. Each warp keeps a
/// fragment.
int64_t clusterFor(int64_t items, int64_t units, const Chip &chip) {
  return std::clamp<int64_t>(std::min(residentItems(chip) / items, units), 1, chip.cluster);
}

/// Products by matrix instructions. Few rows are bound by the stream of weights: warps share K, as
/// many fragments under way as registers hold. Many rows fill 64 columns, warps side by side along
/// panels.
Schedule fragments(const Schedule &problem) {
  int64_t rows = problem.at("rows"), units = problem.at("k") / 64, bits = problem.at("weight_bits");
  // Weights of up to 32 MiB are read a second time from the second-level cache.
  bool near = problem.at("n") * problem.at("k") * bits / 8 <= 32 << 20 && !problem.count("heads");
  bool many = rows > (near ? 64 : 32);
  int64_t tile = rows <= 4 && splitsRows(problem) ? 4
                 : rows <= 8                      ? 8
                 : rows <= 16                     ? 16
                 : many                           ? 64
                                                  : 32;
  int64_t split = many ? 2 : tile > 16 ? 4 : 8;
  while (split > 1 && split > units)
    split /= 2;
  const bool pairs = problem.count("pairs"); // two panels in each warp: twice the registers
  int64_t most = bits == 32 || many ? 1 : tile > 16 ? 2 : bits == 16 || (pairs && tile > 8) ? 4 : 6;
  int64_t ahead = std::clamp<int64_t>(units / split, 1, most);
  Schedule schedule = {{"rows", tile},   {"row_block", tile},
                       {"warps", 8},     {"k_split", split},
                       {"ahead", ahead}, {"panels", 8 / split * (many ? 2 : 1)}};
  if (!many)
    schedule["roll"] = 1;
  if (!many && !pairs) // they would not have enough
    schedule["early"] = 1;
  if (rows <= 16)
    schedule["residents"] = 2;
  return schedule;
}

/// Whether rows stand in shared memory: 64 rows of M3.1's quarter on an H200 take 30 µs instead of
/// 50 for gate and up, 28 instead of 33 for QKV; 32 rows 29 instead of 22.
bool sharedRows(const Schedule &problem) {
  return problem.count("packed_rows") && problem.at("packed_rows") && !problem.count("top_k") &&
         problem.at("rows") > 32 && problem.at("weight_bits") < 32 &&
         problem.at("n") % (problem.count("pairs") || problem.count("heads") ? 64 : 16) == 0;
}

/// Whether sixteen warps, which have 128 registers each, may multiply.
bool hasWideTiles(const Schedule &problem) {
  return problem.at("weight_bits") <= 8 && problem.at("n") % 256 == 0;
}

/// Tiles of 64 or 128 rows, a panel in each warp; `parts` of K. More codes under way need registers
/// that weights in BF16 and sixteen warps do not leave, nor products after the last whole round.
Schedule tileOfSharedRows(const Schedule &problem, int64_t rows, int64_t panels, int64_t parts) {
  bool few = panels == 16 || rows < 128 || problem.at("weight_bits") > 8;
  int64_t ahead = few || problem.at("k") / 64 / parts % 4 ? 2 : 4;
  return {{"packed_rows", 1}, {"rows", rows}, {"row_block", rows}, {"warps", panels + 1},
          {"ahead", ahead},   {"stages", 8},  {"panels", panels},  {"cluster", parts}};
}

/// K in as many parts as fill the chip.
Schedule inSharedRows(const Schedule &problem, const Chip &chip) {
  const int64_t rows = problem.at("rows") > 64 ? 128 : 64, units = problem.at("k") / 64;
  auto itemsOf = [&](int64_t panels) {
    return int64_t(llvm::divideCeil(problem.at("n"), 16 * panels) *
                   llvm::divideCeil(problem.at("rows"), rows));
  };
  int64_t cluster = std::clamp<int64_t>(chip.facts.units / itemsOf(8), 1, chip.cluster);
  while (units % cluster)
    --cluster;
  // Twice the outputs halve the reads of rows, if the last round is not half empty.
  bool wide = !problem.count("pairs") && !problem.count("heads") && hasWideTiles(problem) &&
              itemsOf(16) >= 4 * chip.facts.units;
  Schedule schedule = tileOfSharedRows(problem, rows, wide ? 16 : 8, cluster);
  if (problem.count("heads"))
    schedule["chunk"] = 32; // dimensions of a head along a warp
  return schedule;
}

/// Products of experts with enough rows of each: tiles of an expert's rows in shared memory.
bool expertsInSharedRows(const Schedule &problem) {
  return problem.count("top_k") && problem.at("packed_rows") && usesMatrices(problem) &&
         problem.at("n") % 64 == 0 && problem.at("k") % 64 == 0 &&
         (problem.at("packed_rows") == askedForm ||
          problem.at("rows") * problem.at("top_k") >= 16 * problem.at("matrices"));
}
Schedule expertTiles(const Schedule &problem, bool down) {
  int64_t each = problem.at("rows") * problem.at("top_k") / problem.at("matrices");
  int64_t rows = each > 64 ? 128 : 64;
  bool wide = down && rows == 128 && hasWideTiles(problem);
  Schedule schedule = tileOfSharedRows(problem, rows, wide ? 16 : 8, 1);
  if (rows == 64 && problem.at("weight_bits") <= 8)
    schedule["residents"] = 2;
  return schedule;
}

/// Products of experts: many weights, few rows of each. A warp streams two panels of it, with
/// enough fragments of each under way that one batch of them is most of its part of K.
Schedule experts(const Schedule &problem) {
  int64_t rows = problem.at("rows"), units = problem.at("k") / 64, bits = problem.at("weight_bits");
  int64_t each = problem.at("matrices") > 1 ? rows / 16 : rows; // rows of an expert, about
  int64_t tile = each <= 8 ? 8 : 16;
  int64_t split = std::bit_floor(uint64_t(std::clamp<int64_t>(units / 6, 1, 8)));
  int64_t ahead = std::clamp<int64_t>(units / split, 1, std::max<int64_t>(1, 64 / bits / tile));
  return {{"rows", tile},   {"row_block", tile},    {"warps", 8},     {"k_split", split},
          {"ahead", ahead}, {"panels", 16 / split}, {"residents", 3}, {"roll", 1}};
}

/// Where a warp has few fragments, all of them in a row without a loop: in loops ptxas asks for the
/// next ones only when all of a round are multiplied.
void straighten(Schedule &schedule, const Schedule &problem) {
  constexpr int64_t most = 32;
  const int64_t rowsAhead = splitsRows(problem) && schedule["rows"] > 4 ? 1 : 3;
  int64_t parts = schedule["k_split"] * choiceOf(schedule, "cluster", 1);
  int64_t units = problem.at("k") / 64, each = units / parts, bits = problem.at("weight_bits");
  if (!schedule.count("early") || bits == 32 || units % parts || each > most)
    return;
  int64_t &ahead = schedule["ahead"];
  // Six instead of four: 24 for 17.5 µs, QKV of M3.1 on one GPU for one row.
  if (bits == 8)
    ahead = std::min<int64_t>(each, 4);
  schedule["straight"] = 1;
  schedule["ahead_rows"] = std::min(rowsAhead, ahead);
}

/// One product by itself: few outputs are shared by clusters.
Schedule clustered(const Schedule &problem, const Chip &chip) {
  Schedule schedule = fragments(problem);
  int64_t panels = llvm::divideCeil(problem.at("n"), 16);
  int64_t together = problem.count("pairs") ? 2 : 1; // panels that stay in one work item
  int64_t items = llvm::divideCeil(panels, std::max(schedule["panels"], together)) *
                  llvm::divideCeil(problem.at("rows"), schedule["row_block"]);
  int64_t units = problem.at("k") / 64 / schedule["k_split"];
  if (items * 2 <= residentItems(chip)) {
    schedule["cluster"] = clusterFor(items, units, chip);
    schedule["ahead"] = std::clamp<int64_t>(units / schedule["cluster"], 1, schedule["ahead"]);
  }
  // Three on a multiprocessor rather than a second, half empty wave of two.
  if (schedule.count("residents") && items > residentItems(chip) &&
      items <= residentItems(chip) * 3 / 2) {
    schedule["residents"] = 3;
    schedule["ahead"] = std::min<int64_t>(schedule["ahead"], 3);
  }
  straighten(schedule, problem);
  return schedule;
}

/// Two panels in each warp and half of its part of K, so that rows, of which FP32 has two parts,
/// are read half as often: 8 rows of M3.1's quarter on an H200 in 7.9 instead of 8.5 µs, 32 in 14
/// instead of 21.
void shareSplitRows(Schedule &schedule, int64_t units) {
  const bool many = schedule["rows"] > 16;
  int64_t &cluster = schedule["cluster"];
  if (many)
    cluster = std::min<int64_t>(cluster, 4);
  schedule["k_split"] = units / cluster >= 2 ? 2 : 1;
  schedule["ahead"] = std::min<int64_t>(units / cluster / schedule["k_split"], many ? 4 : 3);
}

/// A head of queries, keys or values belongs to one cluster, a panel of it to each of eight warps.
Schedule heads(const Schedule &problem, const Chip &chip) {
  Schedule schedule = fragments(problem);
  int64_t count = llvm::divideCeil(problem.at("n"), 128);
  int64_t items = count * llvm::divideCeil(problem.at("rows"), schedule["row_block"]);
  int64_t units = problem.at("k") / 64;
  schedule["k_split"] = 1;
  schedule["panels"] = 8;
  schedule["chunk"] = 32; // dimensions of a head along a warp
  schedule["cluster"] = clusterFor(items, units, chip);
  int64_t each = units / schedule["cluster"];
  schedule["ahead"] = std::clamp<int64_t>(each, 1, std::min<int64_t>(schedule["ahead"], 4));
  if (splitsRows(problem) && schedule["rows"] > 4)
    shareSplitRows(schedule, units);
  straighten(schedule, problem);
  if (schedule.count("early")) // its work items leave room for those of the next launch
    schedule["early"] = 2;
  return schedule;
}

Schedule matrixProduct(const Schedule &problem, const Chip &chip) {
  Schedule schedule = sharedRows(problem)         ? inSharedRows(problem, chip)
                      : problem.count("heads")    ? heads(problem, chip)
                      : problem.count("matrices") ? experts(problem)
                                                  : clustered(problem, chip);
  if (splitsRows(problem))
    schedule["split_rows"] = 1;
  return schedule;
}

/// Products with a weight, one warp a work item, lanes along two panels of 16 outputs. Few rows
/// stream the codes through registers once; many are cut into blocks of 16 rows, so that a launch
/// has enough work items, and multiply a dequantised stage of the panels.
Schedule product(const Schedule &problem, const Chip &chip) {
  if (usesMatrices(problem) && problem.at("k") % 64 == 0)
    return matrixProduct(problem, chip);
  int64_t rows = problem.at("rows");
  if (problem.count("matrices")) // an expert has a small part of them
    rows = rows <= 64 ? std::min<int64_t>(rows, 8) : 16;
  if (rows <= 8)
    return {{"ring", 0}, {"ahead", 0}, {"rows", rows}, {"panels", 2}};
  return {{"ring", 1},   {"stages", 1},     {"rows", 8},
          {"panels", 2}, {"row_block", 16}, {"k_chunk", 64}};
}

/// Sparse attention with pages outside and rows inside, from more rows on than 256 requests to
/// verify have, whose rows share few pages: 8,192 rows of M3.1's quarter at 32K on an H200 take 608
/// instead of 824 µs, 1,024 rows 118 instead of 115, 128 sequences of 8 rows 285 instead of 107.
bool pagesOutside(const Schedule &problem) {
  int64_t form = choiceOf(problem, "kv_outer");
  return form == askedForm || (form && problem.at("rows") > 4096);
}
Schedule kvOuter(const Schedule &problem, const Chip &chip) {
  constexpr int64_t residents = 3; // 68 KiB of operands each, and 168 registers for a thread
  int64_t parts = std::max<int64_t>(residents * chip.facts.units / problem.at("kv_heads"), 1);
  // The means of pages that wait for their sum take 64 KiB for each row and head of keys.
  int64_t rowsAtOnce = std::clamp<int64_t>(8192 / problem.at("kv_heads"), 2048, 8192);
  return {{"kv_outer", 1},          {"consumers", 4}, {"ahead", 1},
          {"residents", residents}, {"parts", parts}, {"rows_at_once", rowsAtOnce}};
}

/// Kernels that work row by row. Each warp has one chunk where it can, so that all of a row is
/// under way at once; else as many and as wide ones as divide the row.
Schedule rows(int64_t width) {
  int64_t warps = 16, chunk = width / warps; // columns
  if (width % (warps * 32) == 0 && chunk <= 512)
    return {{"warps", warps}, {"chunk", chunk}};
  warps = 8, chunk = 128;
  while (chunk > 32 && width % (warps * chunk))
    chunk /= 2;
  while (warps > 1 && width % (warps * chunk))
    warps /= 2;
  return {{"warps", warps}, {"chunk", chunk}};
}

/// The H200 ran it.
Schedule tuned(Schedule schedule) {
  schedule[tunedMark] = 1;
  return schedule;
}

} // namespace

Schedule sm90Schedule(llvm::StringRef family, const Schedule &problem, const Chip &chip) {
  // FP32 rows keep the order of additions of the CPU's kernels, so that their results are its bits.
  if (family == "rows" && problem.at("handed_bits") == 16)
    return rows(problem.at("width"));
  if (family == "route") { // few rows are no work for a launch of their own
    Schedule schedule = {{"warps", 8}};
    if (problem.at("rows") <= 16)
      schedule["with_router"] = 1;
    if (problem.at("rows") > 128) // one work item would take longer than a launch more
      schedule["list_apart"] = 1;
    return schedule;
  }
  if (family == "qkv_insert") {
    Schedule whole = problem;
    whole["heads"] = 1;
    return product(whole, chip);
  }
  if (family == "project")
    return product(problem, chip);
  if (family == "gate_up") {
    Schedule whole = problem;
    whole["pairs"] = 1;
    return product(whole, chip);
  }
  if ((family == "experts_up" || family == "experts_down") && expertsInSharedRows(problem))
    return expertTiles(problem, family == "experts_down");
  if (family == "experts_up" || family == "experts_down") {
    Schedule schedule = product(problem, chip);
    if (family == "experts_down" && schedule.count("k_split"))
      schedule["apart"] = 1;
    return schedule;
  }
  if (family == "block_topk" && problem.at("k") <= 32)
    return {{"warps", 8}, {tunedMark, 1}};
  // FP32 activations are for kernels whose results are the CPU's bits.
  bool matrix =
      problem.count("matrix") && problem.at("matrix") && problem.at("activation_bits") == 16;
  if (family == "index_score" && matrix) {
    PageChip items = {chip.facts.units, 184 * 1024};
    items.scoresOfAllRows = false; // tiles were measured with parts of their own
    return tuned(matrixScores(problem, items));
  }
  if (family == "index_score")
    return plainScores(problem);
  if (family == "attention" && matrix && pagesOutside(problem))
    return kvOuter(problem, chip);
  if (family == "attention" && matrix) {
    // Heads that fill up sixteen cost registers, which a third work item has not.
    const int64_t crowd = problem.at("group") == 16 ? 3 : 2;
    PageChip items = {chip.facts.units, 168 * 1024, 2, crowd};
    items.flatSelections = false; // those were measured in parts of rows
    Schedule schedule = matrixAttention(problem, items);
    return isOn(schedule, "flat") ? schedule : tuned(schedule);
  }
  if (family == "attention") {
    Schedule schedule = plainAttention(problem);
    schedule["split"] = schedule["rows"] == 1; // few rows: parts of four pages side by side
    return schedule;
  }
  return {};
}

} // namespace m3c
