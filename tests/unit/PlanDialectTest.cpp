// The plan dialect: text reads back as printed, and each labelled constraint refuses a planted
// fault.
#include "dialects/plan/Plan.h"
#include "tests/unit/PlanModule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace m3c::planir;
using m3c::test::planModule;

namespace {

class PlanDialectTest : public m3c::test::PlanModuleTest {
protected:
  // The first diagnostic that reading `text` gives, or "".
  std::string diagnostic(const std::string &text) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diag) {
      if (message.empty())
        message = diag.str();
      return success();
    });
    parseSourceString<ModuleOp>(text, &context);
    return message;
  }

  static std::string replaced(std::string text, const std::string &from, const std::string &to) {
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }
};

TEST_F(PlanDialectTest, TextReadsBackAsPrinted) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(planModule, &context);
  ASSERT_TRUE(module);
  std::string first, second;
  llvm::raw_string_ostream(first) << *module;
  OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(first, &context);
  ASSERT_TRUE(again);
  llvm::raw_string_ostream(second) << *again;
  EXPECT_EQ(first, second);
  EXPECT_NE(first.find("grid [2, blocks(4), 1]"), std::string::npos) << first;
}

struct Fault {
  const char *label, *from, *to;
};

TEST_F(PlanDialectTest, EveryConstraintRefusesItsFault) {
  const Fault faults[] = {
      {"piece-keys", "dtype = \"U8\", ", ""},
      {"panel-bytes", "bytes = 128", "bytes = 64"},
      {"panel-bytes", "panels = 2", "panels = 2 abreast = 3"},
      {"piece-fits", "first_panel = 1", "first_panel = 2"},
      {"piece-fits", "dest_offset = 0", "dest_offset = 128"},
      {"cache-layers", "kv_offsets = [0, 18432]", "kv_offsets = [0]"},
      {"cache-lanes", "[-1, 36864]", "[-1, 50000]"},
      {"bucket-order", "plan.program @step {", "plan.program @step { %p = plan.pool offset 0"},
      {"size-not-negative", "rows * 1024", "rows * -1"},
      {"size-not-negative", "rows * 1024 + blocks * 0 + 0", "rows * 0 + blocks * 0 + 0"},
      {"offset-aligned", "at 2048 + blocks * 0", "at 2056 + blocks * 0"},
      {"weight-inside", "@w offset 64", "@w offset 128"},
      {"weight-inside", "plan.weight @w", "plan.weight @norm"},
      {"kernel-exists", "launch @norm", "launch @none"},
      {"kernel-exists", "params 3", "params 2"},
      {"access-per-argument", "r %n", "rw %n"},
      {"grid-positive", "grid [4, 1, 1]", "grid [0, 1, 1]"},
      {"grid-positive", "grid [4, 1, 1]", "grid [4, 1]"},
      {"tap-after-launch", "%n = plan.scalar -5",
       "%n = plan.scalar -5\nplan.tap hidden layer = 0 row_bytes = 8 %h"},
      {"written-before-read", "w %h : !plan.buffer, w %s", "r %h : !plan.buffer, w %s"},
      {"arena-disjoint", "at 3072 + blocks * 0", "at 1984 + blocks * 0"},
      {"arena-disjoint", "4096 + blocks * 64 {", "3072 + blocks * 0 {"},
      {"arena-disjoint", "at 0 + blocks * 0", ""},
  };
  EXPECT_EQ(diagnostic(planModule), "");
  for (const Fault &fault : faults) {
    std::string message = diagnostic(replaced(planModule, fault.from, fault.to));
    EXPECT_NE(message.find(fault.label), std::string::npos) << fault.to << " gave: " << message;
  }
}

TEST_F(PlanDialectTest, BuffersThatAreNotLiveTogetherMayOverlap) {
  // "scores" dies at the first launch, "logits" is born at the second.
  EXPECT_EQ(diagnostic(replaced(planModule, "at 2048 + blocks * 0", "at 3072 + blocks * 0")), "");
}

TEST(PlanRanges, OverlapIsDecidedForEveryCountOfBlocks) {
  ArenaRange fixed{0, 0, 1000, 0};
  EXPECT_FALSE(overlapsForSomeBlocks(fixed, {1000, 0, 1064, 0}));
  EXPECT_TRUE(overlapsForSomeBlocks(fixed, {999, 0, 1064, 0}));
  // Grows into the other from 10 blocks on.
  EXPECT_TRUE(overlapsForSomeBlocks({0, 0, 0, 100}, {901, 0, 2000, 0}));
  // Both grow; the second begins where the first ends.
  EXPECT_FALSE(overlapsForSomeBlocks({0, 0, 64, 100}, {64, 100, 128, 300}));
  // Overlaps at one block only: [100, 200) and [150·x, …) leave each other afterwards.
  EXPECT_TRUE(overlapsForSomeBlocks({100, 0, 200, 0}, {0, 150, 1, 150}));
  EXPECT_FALSE(overlapsForSomeBlocks({100, 0, 200, 0}, {0, 250, 1, 250}));
  // Empty ranges overlap nothing.
  EXPECT_FALSE(overlapsForSomeBlocks({50, 0, 50, 0}, fixed));
}

} // namespace
