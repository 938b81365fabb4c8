// Schedules of targets, by what they promise.
#include "passes/targets/common/Target.h"
#include "passes/targets/common/WorkPlan.h"

#include <algorithm>
#include <optional>
#include <set>

#include <gtest/gtest.h>

using namespace m3c;

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Pages of the longest work item times those that one place of a multiprocessor takes in turn.
int64_t longestWith(const Schedule &schedule, int64_t units, int64_t rows, int64_t heads,
                    int64_t selected) {
  int64_t places = units * schedule.at("residents"), parts = schedule.at("parts");
  if (schedule.at("flat")) {
    EXPECT_LE(parts * heads, places);
    return ceilDiv(rows * selected, parts);
  }
  return ceilDiv(rows * heads * parts, places) * shareOf(selected, parts, 0).count();
}

} // namespace

/// Selections on sm107 have whichever longest work item is shorter: of three work items of a
/// multiprocessor with parts of rows, or of two with stretches.
TEST(Schedules, SelectionsOfSm107HaveTheShorterLongestWorkItem) {
  const Target &target = *findTarget("sm107");
  const Chip &chip = target.chips().front();
  std::set<int64_t> kinds;
  for (int64_t rows = 1; rows <= 16; ++rows)
    for (int64_t heads = 1; heads <= 16; ++heads)
      for (int64_t selected : {1, 3, 8, 16, 32}) {
        Schedule problem = {{"rows", rows},         {"kv_heads", heads},
                            {"group", 16},          {"dims", 128},
                            {"selected", selected}, {"page_bytes", 18432},
                            {"cache_bits", 4},      {"activation_bits", 32},
                            {"matrix", 1},          {"shared", 0},
                            {"tensor", 0}};
        auto longest = [&](std::optional<int64_t> flat) {
          if (flat)
            problem["flat"] = *flat;
          Schedule schedule = target.schedule("attention", problem, chip);
          kinds.insert(flat ? -1 : schedule.at("flat"));
          EXPECT_EQ(schedule.at("flat"), flat.value_or(schedule.at("flat")));
          EXPECT_EQ(schedule.at("residents"), schedule.at("flat") ? 2 : 3);
          return longestWith(schedule, chip.facts.units, rows, heads, selected);
        };
        int64_t chosen = longest({});
        if (rows > 1)
          EXPECT_EQ(chosen, std::min(longest(0), longest(1)))
              << rows << " rows, " << heads << " heads, " << selected << " pages";
      }
  EXPECT_EQ(kinds, (std::set<int64_t>{-1, 0, 1})) << "both are chosen for some";
}
