// How work is shared out: rules that hold for any lengths, and the arithmetic that kernels do.
#include "passes/targets/common/WorkPlan.h"
#include "passes/kernel/WorkShare.h"

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
