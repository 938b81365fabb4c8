// Schedules of targets, by what they promise: how the kernels that they choose share out a batch.
#include "passes/targets/common/Target.h"
#include "passes/targets/common/WorkPlan.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

using namespace m3c;

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows of a step: each row's sequence, and its blocks.
struct Row {
  int64_t sequence, blocks;
};
using Rows = std::vector<Row>;

/// Any number of rows up to the bucket's, of lengths that differ by three orders of magnitude; some
/// follow each other in one sequence.
Rows someRows(std::mt19937 &random, int64_t bucket) {
  Rows rows(random() % (bucket + 1));
  int64_t chunk = random() % 3; // none, some, all rows
  for (size_t i = 0; i < rows.size(); ++i) {
    bool follows = i > 0 && (chunk == 2 || (chunk == 1 && random() % 2));
    rows[i].sequence = i == 0 ? 0 : rows[i - 1].sequence + !follows;
    int64_t most = random() % 3 == 0 ? 8192 : random() % 2 ? 12 : 200;
    rows[i].blocks = follows ? rows[i - 1].blocks : 1 + int64_t(random()) % most;
  }
  return rows;
}

/// Pages of each work item of a launch.
using Loads = std::vector<int64_t>;

int64_t countOf(const std::vector<WorkRun> &runs) {
  int64_t count = 0;
  for (const WorkRun &run : runs)
    count += run.share.count();
  return count;
}

Loads attentionLoads(const Schedule &schedule, const Rows &rows, int64_t heads, int64_t selected) {
  if (rows.empty())
    return {};
  std::vector<int64_t> tiles;
  bool alike = !selected; // each row has a list of its own
  for (const Row &row : rows) {
    tiles.push_back(selected ? std::min(selected, row.blocks) : row.blocks);
    alike &= row.sequence == rows.front().sequence;
  }
  Loads loads;
  for (int64_t head = 0; head < heads; ++head) {
    if (schedule.at("flat")) {
      int64_t parts = flatParts(schedule.at("parts"), std::ssize(rows), alike);
      for (const std::vector<WorkRun> &runs : planFlat(tiles, parts))
        loads.push_back(countOf(runs));
      continue;
    }
    for (int64_t count : tiles)
      for (int64_t part = 0; part < schedule.at("parts"); ++part)
        loads.push_back(shareOf(count, schedule.at("parts"), part).count());
  }
  return loads;
}

/// `tileRows`: rows that fill the columns of a product.
Loads scoreLoads(const Schedule &schedule, const Rows &rows, int64_t tileRows) {
  bool all = choiceOf(schedule, "all_rows");
  Loads loads;
  int64_t step = all ? std::ssize(rows) : tileRows;
  for (int64_t first = 0; first < std::ssize(rows); first += step) {
    std::vector<int64_t> runs; // rows of one sequence, as many as fill the columns
    int64_t length = 0;
    for (int64_t i = first; i < std::min(first + step, std::ssize(rows)); ++i) {
      bool follows = i > first && rows[size_t(i)].sequence == rows[size_t(i) - 1].sequence;
      length = follows && length < tileRows ? length + 1 : 1;
      if (length == 1)
        runs.push_back(0);
      runs.back() = std::max(runs.back(), rows[size_t(i)].blocks);
    }
    for (const std::vector<WorkRun> &part : planWork(runs, schedule.at("parts")))
      loads.push_back(countOf(part));
  }
  return loads;
}

/// What a kernel of these families is asked to be for, NVFP4 pages and rows in FP32 or BF16.
Schedule problemOf(const std::string &chip, bool scores, int64_t rows, int64_t heads,
                   int64_t selected) {
  Schedule problem = {{"rows", rows},        {"dims", 128},    {"cache_bits", 4},
                      {"shared", 0},         {"matrix", 1},    {"tensor", 1},
                      {"group", 16},         {"heads", heads}, {"kv_heads", heads},
                      {"selected", selected}};
  problem["activation_bits"] = chip == "sm_90a" ? 16 : 32;
  problem["page_bytes"] = scores ? 9216 : 18432;
  return problem;
}

struct Kernels {
  const char *target;
  bool tensor;
};

/// Calls `body` for the first chip of every GPU target, with and without tensor memory.
template <typename Body> void eachKernel(Body body) {
  for (const Kernels &kernels : {Kernels{"sm90", false},
                                 {"sm100", true},
                                 {"sm100", false},
                                 {"sm107", false},
                                 {"gfx950", false}}) {
    const Target &target = *findTarget(kernels.target);
    SCOPED_TRACE(std::string(kernels.target) + (kernels.tensor ? ", tensor memory" : ""));
    body(target, target.chips().front(), kernels.tensor);
  }
}

void expectWithinOne(const Loads &loads, const std::string &what) {
  if (loads.empty())
    return;
  auto [least, most] = std::ranges::minmax(loads);
  EXPECT_LE(most - least, 1) << what << ": " << loads.size() << " work items";
}

int64_t placesOf(const Schedule &schedule, const Chip &chip) {
  return chip.facts.units * choiceOf(schedule, "residents", 1);
}

} // namespace

/// Whatever the lengths, work items of attention have equally many pages but for one, and all stand
/// on the chip at once. Not so the selections of sm90, which an H200 measured in parts of rows.
TEST(Schedules, WorkItemsOfAttentionAreWithinOnePage) {
  std::mt19937 random(21);
  std::set<std::string> byRows;
  eachKernel([&](const Target &target, const Chip &chip, bool tensor) {
    for (int64_t rows = 1; rows <= 16; ++rows)
      for (int64_t heads : {1, 2, 3, 4})
        for (int64_t selected : {0, 16}) {
          Schedule problem = problemOf(chip.name, false, rows, heads, selected);
          problem["tensor"] = tensor;
          Schedule schedule = target.schedule("attention", problem, chip);
          EXPECT_LE(schedule.at("parts") * heads * (schedule.at("flat") ? 1 : rows),
                    placesOf(schedule, chip));
          if (!schedule.at("flat") && rows > 1) {
            byRows.insert(target.name().str() + (selected ? " selections" : " dense"));
            continue;
          }
          for (int round = 0; round < 12; ++round)
            expectWithinOne(attentionLoads(schedule, someRows(random, rows), heads, selected),
                            std::to_string(rows) + " rows, " + std::to_string(heads) + " heads, " +
                                std::to_string(selected) + " selected");
        }
  });
  EXPECT_EQ(byRows, std::set<std::string>{"sm90 selections"});
}

/// Selections in parts of rows (sm90), all of them full: a multiprocessor has at most a page more
/// than an even share.
TEST(Schedules, FullSelectionsInPartsOfRowsAreAPageAboveAnEvenShareAtMost) {
  const Target &target = *findTarget("sm90");
  const Chip &chip = target.chips().front();
  for (int64_t rows : {1, 2, 4, 8, 16, 32, 64})
    for (int64_t heads : {1, 2, 4}) {
      Schedule schedule =
          target.schedule("attention", problemOf("sm_90a", false, rows, heads, 16), chip);
      int64_t parts = schedule.at("parts"), even = ceilDiv(rows * heads * 16, chip.facts.units);
      int64_t items = ceilDiv(rows * heads * parts, chip.facts.units);
      EXPECT_LE(items * ceilDiv(16, parts), even + 1) << rows << " rows, " << heads << " heads";
    }
}

/// Likewise work items of block scores, on the targets whose schedules no chip has measured; on
/// sm90 those of a tile, of which there is one up to eight columns.
TEST(Schedules, WorkItemsOfBlockScoresAreWithinOnePage) {
  std::mt19937 random(22);
  std::set<std::string> byTiles;
  eachKernel([&](const Target &target, const Chip &chip, bool tensor) {
    for (int64_t rows = 1; rows <= 16; ++rows)
      for (int64_t heads : {1, 2, 4}) {
        Schedule problem = problemOf(chip.name, true, rows, heads, 0);
        problem["tensor"] = tensor;
        Schedule schedule = target.schedule("index_score", problem, chip);
        bool all = choiceOf(schedule, "all_rows"), inTensor = schedule.count("tensor_stages");
        int64_t columns = all || inTensor ? schedule.at("columns") : chip.matrix.columns;
        int64_t tileRows = columns / heads;
        int64_t tiles = all ? 1 : ceilDiv(rows, tileRows);
        EXPECT_LE(schedule.at("parts") * tiles, placesOf(schedule, chip));
        if (tiles > 1) {
          byTiles.insert(target.name().str());
          continue;
        }
        for (int round = 0; round < 12; ++round)
          expectWithinOne(scoreLoads(schedule, someRows(random, rows), tileRows),
                          std::to_string(rows) + " rows, " + std::to_string(heads) + " heads");
      }
  });
  EXPECT_EQ(byTiles, std::set<std::string>{"sm90"});
}

/// Of selections on sm107 two work items of a multiprocessor with stretches, or three with parts
/// of rows, where a multiprocessor has fewer pages then.
TEST(Schedules, SelectionsOfSm107GiveAMultiprocessorNoMorePagesThanPartsOfRows) {
  const Target &target = *findTarget("sm107");
  const Chip &chip = target.chips().front();
  for (int64_t rows = 2; rows <= 16; ++rows)
    for (int64_t heads = 1; heads <= 16; ++heads)
      for (int64_t selected : {1, 3, 8, 16, 32}) {
        Schedule problem = problemOf("sm_107a", false, rows, heads, selected);
        problem["tensor"] = 0;
        auto longest = [&]() {
          Schedule schedule = target.schedule("attention", problem, chip);
          bool flat = schedule.at("flat");
          int64_t parts = schedule.at("parts"), items = parts * heads * (flat ? 1 : rows);
          EXPECT_EQ(schedule.at("residents"), flat ? 2 : 3);
          return ceilDiv(items, chip.facts.units) *
                 (flat ? ceilDiv(rows * selected, parts) : shareOf(selected, parts, 0).count());
        };
        int64_t chosen = longest();
        problem["flat"] = 0;
        EXPECT_LE(chosen, longest())
            << rows << " rows, " << heads << " heads, " << selected << " pages";
      }
}
