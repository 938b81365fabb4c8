// How work is shared out: rules that hold for any lengths, and the arithmetic that kernels do.
#include "passes/targets/common/WorkPlan.h"
#include "passes/kernel/families/cache/WorkShare.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <ranges>

#include <gtest/gtest.h>

using namespace m3c;
using namespace mlir;

namespace {

/// Units of chips, and numbers that no chip has.
constexpr int64_t partCounts[] = {1, 2, 7, 8, 66, 132, 148, 160, 212, 256, 848};

/// Every tile once, in stretches of its request; loads within one tile.
void checkPlan(const std::vector<int64_t> &tiles, int64_t parts) {
  auto plan = planWork(tiles, parts);
  ASSERT_EQ(int64_t(plan.size()), parts);
  std::vector<std::vector<int>> seen;
  for (int64_t count : tiles)
    seen.emplace_back(count, 0);
  int64_t least = INT64_MAX, most = 0;
  for (const std::vector<WorkRun> &runs : plan) {
    int64_t load = 0, before = -1;
    for (const WorkRun &run : runs) {
      EXPECT_GT(run.request, before); // one stretch of a request at most
      before = run.request;
      EXPECT_GT(run.share.count(), 0);
      load += run.share.count();
      for (int64_t tile = run.share.begin; tile < run.share.end; ++tile)
        ++seen.at(run.request).at(tile);
    }
    least = std::min(least, load);
    most = std::max(most, load);
  }
  for (const std::vector<int> &request : seen)
    EXPECT_EQ(std::ranges::count(request, 1), std::ranges::ssize(request));
  EXPECT_LE(most - least, 1) << parts << " parts, " << tiles.size() << " requests";
}

TEST(WorkPlan, EveryTileOnceAndLoadsWithinOne) {
  std::mt19937 random(11);
  for (int64_t parts : partCounts)
    for (int round = 0; round < 40; ++round) {
      std::vector<int64_t> tiles(random() % 20);
      for (int64_t &count : tiles)
        count = random() % 3 ? random() % (round % 2 ? 12 : 900) : 0; // a third is empty
      checkPlan(tiles, parts);
    }
}

TEST(WorkPlan, EmptyRequestsAreLegal) {
  for (int64_t parts : partCounts) {
    checkPlan({}, parts);
    checkPlan({0, 0, 0}, parts);
    checkPlan({0, 1, 0}, parts);
  }
}

/// Every tile once, in the order of requests and tiles, in stretches that differ by one tile; what
/// is said of slots and groups.
void checkFlat(const std::vector<int64_t> &tiles, int64_t parts, int64_t fan) {
  auto plan = planFlat(tiles, parts);
  auto requests = int64_t(tiles.size()),
       all = std::accumulate(tiles.begin(), tiles.end(), int64_t(0));
  std::vector<WorkShare> found(tiles.size());
  std::vector<WorkParts> owners(tiles.size());
  int64_t least = INT64_MAX, most = 0, lastRequest = 0, lastSlot = -1;
  for (int64_t part = 0; part < parts; ++part) {
    int64_t load = 0;
    for (const WorkRun &run : plan[size_t(part)]) {
      load += run.share.count();
      ASSERT_GE(run.request, lastRequest);
      lastRequest = run.request;
      WorkShare &before = found[size_t(run.request)];
      ASSERT_EQ(run.share.begin, before.end); // where the part before ended
      ASSERT_GT(run.share.count(), 0);
      before.end = run.share.end;
      WorkParts &owner = owners[size_t(run.request)];
      owner.first = owner.count++ ? owner.first : part;
      ASSERT_EQ(part, owner.first + owner.count - 1); // neighbours
      ASSERT_GT(flatSlot(part, run.request), lastSlot);
      lastSlot = flatSlot(part, run.request);
    }
    least = std::min(least, load);
    most = std::max(most, load);
  }
  ASSERT_LE(most - least, 1);
  ASSERT_LT(lastSlot, flatSlots(parts, requests));
  int64_t begin = 0, lastGroup = -1;
  for (int64_t request = 0; request < requests; begin += tiles[size_t(request++)]) {
    int64_t count = tiles[size_t(request)];
    ASSERT_EQ(found[size_t(request)].end, count);
    if (count == 0)
      continue;
    const WorkParts &owner = owners[size_t(request)];
    WorkParts computed = flatPartsOf({begin, begin + count}, all, parts);
    ASSERT_EQ(computed.first, owner.first);
    ASSERT_EQ(computed.count, owner.count);
    if (owner.count <= fan)
      continue;
    for (int64_t group = 0; group * fan < owner.count; ++group) {
      int64_t place = flatGroup(flatSlot(owner.first, request), request, fan, group);
      ASSERT_GT(place, lastGroup);
      lastGroup = place;
    }
  }
  ASSERT_LT(lastGroup, flatGroups(parts, requests, fan));
}

TEST(WorkPlan, FlatEveryTileOnceInOrderAndLoadsWithinOne) {
  std::mt19937 random(14);
  for (int64_t parts : partCounts)
    for (int round = 0; round < 60; ++round) {
      std::vector<int64_t> tiles(round % 4 ? random() % 20 : random() % (mostFlatRequests + 1));
      for (int64_t &count : tiles)
        count = random() % 3 ? random() % (round % 2 ? 12 : 900) : 0; // a third is empty
      if (!tiles.empty() && round % 5 == 0)
        tiles[random() % tiles.size()] = 8192; // a million tokens
      ASSERT_NO_FATAL_FAILURE(checkFlat(tiles, parts, 1 + int64_t(random() % 16)))
          << parts << " parts, " << tiles.size() << " requests";
    }
}

TEST(WorkPlan, FlatEmptyRequestsAreLegal) {
  for (int64_t parts : partCounts)
    for (const std::vector<int64_t> &tiles :
         {std::vector<int64_t>{}, {0, 0, 0}, {0, 1, 0}, {1}, {0, 7, 0, 0, 9}})
      ASSERT_NO_FATAL_FAILURE(checkFlat(tiles, parts, 12));
}

TEST(WorkPlan, FlatRowsOfOneSequenceAreCutAtTheSamePlaces) {
  for (int64_t most : partCounts)
    for (int64_t requests : {1, 2, 3, 8, 16, 70, 256}) {
      EXPECT_EQ(flatParts(most, requests, false), most);
      int64_t parts = flatParts(most, requests, true);
      ASSERT_GE(parts, 1);
      ASSERT_LE(parts, most);
      EXPECT_TRUE(parts % requests == 0 || requests > most);
      if (requests <= most)
        EXPECT_GT(parts + requests, most); // as many as that allows
      // Of requests that are alike each begins where a part does, or each part with a request.
      if (requests % parts && parts % requests)
        continue;
      std::vector<int64_t> tiles(size_t(requests), 8191);
      for (const std::vector<WorkRun> &runs : planFlat(tiles, parts)) {
        EXPECT_TRUE(runs.size() == 1 || runs.front().share.begin == 0);
        EXPECT_TRUE(runs.size() == 1 || runs.back().share.end == 8191);
      }
    }
}

/// The most pages that a unit has when each of `units` takes its work items together.
struct Loads {
  int64_t rows, flat;
  bool operator==(const Loads &) const = default;
};
/// Of rows with so many pages and `heads` KV heads; of parts of rows, the longest work item.
Loads longestOf(const std::vector<int64_t> &pages, int64_t units, int64_t heads, bool selections) {
  auto rows = int64_t(pages.size()), all = std::accumulate(pages.begin(), pages.end(), int64_t(0));
  int64_t parts =
      selections ? partsOfSelection(units, rows * heads) : partsFor(units, rows * heads);
  int64_t flat = flatPartsFor({units}, rows, heads, selections ? 16 : 0);
  EXPECT_GT(flat, 0);
  int64_t longest = 0;
  for (int64_t part = 0; part < flat; ++part)
    longest = std::max(longest, stretchOf(all, flat, part).count());
  return {shareOf(std::ranges::max(pages), parts, 0).count(), longest};
}
std::vector<int64_t> onePage(int64_t pages, int64_t count, int64_t others) {
  std::vector<int64_t> all(size_t(count), others);
  all.front() = pages;
  return all;
}

/// The figures of docs/targets/attention.md.
TEST(WorkPlan, PagesOfTheLongestWorkItem) {
  // One row of 1,048,576 keys, seven of 1,024; the same with fifteen and 255.
  EXPECT_EQ(longestOf(onePage(8192, 8, 8), 132, 1, false), (Loads{512, 63}));
  EXPECT_EQ(longestOf(onePage(8192, 16, 8), 132, 1, false), (Loads{1024, 63}));
  EXPECT_EQ(longestOf(onePage(8192, 256, 8), 132, 1, false), (Loads{8192, 78}));
  EXPECT_EQ(longestOf(onePage(8192, 8, 8), 424, 4, false), (Loads{631, 78}));
  EXPECT_EQ(longestOf(onePage(8192, 8, 8), 148, 4, false), (Loads{2048, 223}));
  EXPECT_EQ(longestOf(onePage(8192, 16, 8), 256, 4, false), (Loads{2048, 130}));
  // Sixteen rows of 16 selected blocks each.
  EXPECT_EQ(longestOf(std::vector<int64_t>(16, 16), 148, 4, true), (Loads{8, 7}));
}

TEST(WorkPlan, FlatPartsWhereTheyAreNoLonger) {
  for (int64_t units : {132, 148, 160, 212, 256, 424})
    for (int64_t heads : {1, 2, 3, 4})
      for (int64_t rows : {1, 2, 8, 16, 64, 256, 512}) {
        int64_t dense = flatPartsFor({units}, rows, heads, 0);
        // Wanted in any case they are those, and for selections no fewer.
        int64_t wanted = mostFlatParts(units, rows, heads, 0);
        EXPECT_EQ(wanted, rows > mostFlatRequests ? 0 : units / heads);
        EXPECT_LE(flatPartsFor({units}, rows, heads, 16), mostFlatParts(units, rows, heads, 16));
        EXPECT_LE(mostFlatParts(units, rows, heads, 16), wanted);
        if (rows == 1 || rows > mostFlatRequests) {
          EXPECT_EQ(dense, 0);
          continue;
        }
        EXPECT_LE(dense * heads, units);
        EXPECT_GT((dense + 1) * heads, units);
        int64_t sparse = flatPartsFor({units}, rows, heads, 16);
        EXPECT_LE(sparse, dense);
        // Where as many work items stand on a unit, stretches are never longer than parts.
        if (rows <= 16)
          EXPECT_GT(sparse, 0);
        EXPECT_LE(sparse, rows * partsOfSelection(units, 1));
      }
  // Eight stretches of each of 15 heads leave 12 of 132 units without one; 255 parts of rows none.
  EXPECT_EQ(flatPartsFor({132}, 17, 15, 16), 0);
}

TEST(WorkPlan, PartsFillTheUnits) {
  for (int64_t units : {132, 212, 256})
    for (int64_t groups = 1; groups <= 3 * units; ++groups) {
      int64_t parts = partsFor(units, groups);
      EXPECT_GE(parts, 1);
      EXPECT_TRUE(parts == 1 || parts * groups <= units); // one work item for each unit
      EXPECT_GT((parts + 1) * groups, units);             // and no room for more of them
    }
}

/// The numbers that a kernel's arithmetic comes to for constant operands.
class Evaluated {
public:
  Evaluated() : module(ModuleOp::create(UnknownLoc::get(loaded()))) {}

  int64_t operator()(llvm::function_ref<Value(kernel::KernelBuilder &)> emit) {
    kernel::KernelBuilder kb(*module, "k" + std::to_string(kernels++), "test", {}, {});
    Value result = emit(kb);
    llvm::DenseMap<Value, Attribute> known;
    for (Operation &op : *result.getParentBlock()) {
      llvm::SmallVector<Attribute> operands;
      for (Value operand : op.getOperands())
        operands.push_back(known.lookup(operand));
      llvm::SmallVector<OpFoldResult> folded;
      if (failed(op.fold(operands, folded)) || folded.empty())
        continue;
      Attribute value = llvm::dyn_cast<Attribute>(folded[0]);
      known[op.getResult(0)] = value ? value : known.lookup(llvm::cast<Value>(folded[0]));
    }
    auto number = llvm::dyn_cast_or_null<IntegerAttr>(known.lookup(result));
    EXPECT_TRUE(number);
    kb.kernel().erase();
    return number ? number.getInt() : -1;
  }

private:
  MLIRContext *loaded() {
    context.loadDialect<tile::TileDialect, arith::ArithDialect>();
    return &context;
  }
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  unsigned kernels = 0;
};

TEST(WorkPlan, KernelsComputeTheSameShares) {
  Evaluated evaluated;
  std::mt19937 random(12);
  for (int round = 0; round < 400; ++round) {
    int64_t parts = partCounts[random() % std::size(partCounts)];
    int64_t count = random() % 4 ? random() % 1000 : random() % 4, part = random() % parts;
    WorkShare share = shareOf(count, parts, part);
    auto emitted = [&](kernel::KernelBuilder &kb) {
      return kernel::emitShare(kb, kb.index(count), kb.index(parts), kb.index(part));
    };
    EXPECT_EQ(evaluated([&](auto &kb) { return emitted(kb).begin; }), share.begin);
    EXPECT_EQ(evaluated([&](auto &kb) { return emitted(kb).end; }), share.end);
    EXPECT_EQ(evaluated([&](auto &kb) {
                return kernel::emitUsedParts(kb, kb.index(count), kb.index(parts));
              }),
              std::ranges::count_if(std::views::iota(int64_t(0), parts), [&](int64_t p) {
                return shareOf(count, parts, p).count() > 0;
              }));
  }
}

TEST(WorkPlan, KernelsComputeTheSameFlatParts) {
  Evaluated evaluated;
  std::mt19937 random(15);
  for (int round = 0; round < 300; ++round) {
    int64_t parts = partCounts[random() % std::size(partCounts)];
    int64_t count = 1 + int64_t(random() % (round % 2 ? 40 : 9000)),
            tile = int64_t(random()) % count;
    int64_t part = partOf(count, parts, tile), used = std::min(parts, count);
    WorkShare stretch = stretchOf(count, parts, part);
    EXPECT_TRUE(stretch.begin <= tile && tile < stretch.end);
    auto emitted = [&](kernel::KernelBuilder &kb) {
      return kernel::emitStretch(kb, kb.index(count), kb.index(used), kb.index(part));
    };
    EXPECT_EQ(evaluated([&](auto &kb) { return emitted(kb).begin; }), stretch.begin);
    EXPECT_EQ(evaluated([&](auto &kb) { return emitted(kb).end; }), stretch.end);
    EXPECT_EQ(evaluated([&](auto &kb) {
                return kernel::emitPartOf(kb, kb.index(count), kb.index(used), kb.index(tile));
              }),
              part);
    int64_t requests = 1 + int64_t(random() % mostFlatRequests);
    bool alike = random() % 2;
    EXPECT_EQ(evaluated([&](auto &kb) {
                Value holds = kb.equal(kb.index(alike), kb.index(1));
                return kernel::emitFlatParts(kb, parts, kb.index(requests), holds);
              }),
              flatParts(parts, requests, alike));
  }
}

TEST(WorkPlan, KernelsFollowThePlanFromRequestToRequest) {
  Evaluated evaluated;
  std::mt19937 random(13);
  for (int round = 0; round < 30; ++round) {
    int64_t parts = partCounts[random() % std::size(partCounts)];
    std::vector<int64_t> tiles(1 + random() % 6);
    for (int64_t &count : tiles)
      count = random() % 300;
    auto plan = planWork(tiles, parts);
    int64_t part = random() % parts, first = 0;
    std::vector<WorkRun> runs;
    for (size_t request = 0; request < tiles.size(); ++request) {
      auto share = [&](kernel::KernelBuilder &kb) {
        Value all = kb.index(parts);
        Value number = kernel::emitShareNumber(kb, all, kb.index(part), kb.index(first));
        return kernel::emitShare(kb, kb.index(tiles[request]), all, number);
      };
      WorkShare found{evaluated([&](auto &kb) { return share(kb).begin; }),
                      evaluated([&](auto &kb) { return share(kb).end; })};
      if (found.count() > 0)
        runs.push_back({int64_t(request), found});
      first = evaluated([&](auto &kb) {
        return kernel::emitNextFirst(kb, kb.index(parts), kb.index(first),
                                     kb.index(tiles[request]));
      });
    }
    ASSERT_EQ(runs.size(), plan[size_t(part)].size());
    for (size_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(runs[i].request, plan[size_t(part)][i].request);
      EXPECT_EQ(runs[i].share.begin, plan[size_t(part)][i].share.begin);
      EXPECT_EQ(runs[i].share.end, plan[size_t(part)][i].share.end);
    }
  }
}

} // namespace
