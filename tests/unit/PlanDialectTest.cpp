// The plan dialect: text reads back as printed, and each labelled constraint refuses a planted
// fault.
#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace m3c::planir;

namespace {

const char *const wholeModule = R"mlir(
plan.weight_buffer @w panel_scales bits = 8 row_length = 4 panels = 2 bytes = 128 pieces = [
  {tensor = "q.weight_scale_inv", dtype = "U8", shape = array<i64: 32, 4>, first_panel = 0 : i64,
   panel_step = 1 : i64, dest_offset = 0 : i64} ]
plan.cache nvfp4 grid e4m3 page_tokens = 128 page_bytes = 55296 slot_bytes = 9216
  kv_offsets = [0, 18432] index_offsets = [-1, 36864]
plan.kernel @norm family "norm" params 3 schedule "rows = 1"
plan.kernel @head family "head" params 4
plan.program @step {
  plan.bucket rows = 2 logit_rows = 1 arena = 4096 + blocks * 64 {
    %h = plan.buffer "hidden" size = rows * 1024 + blocks * 0 + 0 at 0 + blocks * 0
    %s = plan.buffer "scores" size = rows * 0 + blocks * 16 + 0 at 2048 + blocks * 0
    %logits = plan.buffer "logits" size = rows * 0 + blocks * 0 + 2048 at 2048 + blocks * 64
    %w = plan.weight @w offset 64
    %kv = plan.pool offset 18432
    %ids = plan.batch token_ids
    %n = plan.scalar 256
    plan.launch @norm(r %ids : !plan.pointer, w %h : !plan.buffer, w %s : !plan.buffer) grid [2, blocks(4), 1] label "norm"
    plan.tap hidden layer = 0 row_bytes = 1024 %h
    plan.launch @head(r %w : !plan.pointer, rw %kv : !plan.pointer, r %n : i64, w %logits : !plan.buffer) grid [4, 1, 1] label "head"
    plan.output %logits
  }
}
)mlir";

class PlanDialectTest : public ::testing::Test {
protected:
  PlanDialectTest() { context.loadDialect<PlanDialect>(); }

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

  MLIRContext context;
};

TEST_F(PlanDialectTest, TextReadsBackAsPrinted) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(wholeModule, &context);
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
      {"piece-fits", "first_panel = 0", "first_panel = 1"},
      {"piece-fits", "dest_offset = 0", "dest_offset = 128"},
      {"cache-layers", "kv_offsets = [0, 18432]", "kv_offsets = [0]"},
      {"cache-lanes", "[-1, 36864]", "[-1, 50000]"},
      {"bucket-order", "plan.program @step {", "plan.program @step { %p = plan.pool offset 0"},
      {"size-not-negative", "rows * 1024", "rows * -1"},
      {"size-not-negative", "rows * 1024 + blocks * 0 + 0", "rows * 0 + blocks * 0 + 0"},
      {"offset-aligned", "at 2048 + blocks * 64", "at 2056 + blocks * 64"},
      {"weight-inside", "@w offset 64", "@w offset 128"},
      {"weight-inside", "plan.weight @w", "plan.weight @norm"},
      {"kernel-exists", "launch @norm", "launch @none"},
      {"kernel-exists", "params 3", "params 2"},
      {"access-per-argument", "r %n", "rw %n"},
      {"grid-positive", "grid [4, 1, 1]", "grid [0, 1, 1]"},
      {"grid-positive", "grid [4, 1, 1]", "grid [4, 1]"},
      {"tap-after-launch", "%n = plan.scalar 256",
       "%n = plan.scalar 256\nplan.tap hidden layer = 0 row_bytes = 8 %h"},
      {"written-before-read", "w %h : !plan.buffer, w %s", "r %h : !plan.buffer, w %s"},
      {"arena-disjoint", "at 2048 + blocks * 0", "at 1984 + blocks * 0"},
      {"arena-disjoint", "4096 + blocks * 64 {", "4032 + blocks * 64 {"},
      {"arena-disjoint", "at 0 + blocks * 0", ""},
  };
  EXPECT_EQ(diagnostic(wholeModule), "");
  for (const Fault &fault : faults) {
    std::string message = diagnostic(replaced(wholeModule, fault.from, fault.to));
    EXPECT_NE(message.find(fault.label), std::string::npos) << fault.to << " gave: " << message;
  }
}

TEST_F(PlanDialectTest, BuffersThatAreNotLiveTogetherMayOverlap) {
  // "scores" dies at the first launch, "logits" is born at the second.
  EXPECT_EQ(diagnostic(replaced(wholeModule, "at 2048 + blocks * 64", "at 2048 + blocks * 0")), "");
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
