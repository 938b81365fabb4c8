// A small module of the plan dialect: one bucket, two kernels, each kind of argument.
#pragma once

#include "dialects/plan/Plan.h"

#include <gtest/gtest.h>

namespace m3c::test {

inline const char *const planModule = R"mlir(
plan.weight_buffer @w panel_scales bits = 8 row_length = 4 panels = 2 bytes = 128 pieces = [
  {tensor = "q.weight_scale_inv", dtype = "U8", shape = array<i64: 16, 4>, first_panel = 1 : i64,
   panel_step = 1 : i64, dest_offset = 0 : i64} ]
plan.cache nvfp4 grid e4m3 page_tokens = 128 page_bytes = 55296 slot_bytes = 9216
  kv_offsets = [0, 18432] index_offsets = [-1, 36864]
plan.kernel @norm family "norm" params 3 schedule "rows = 1"
plan.kernel @head family "head" params 4
plan.program @step {
  plan.bucket rows = 2 logit_rows = 1 arena = 4096 + blocks * 64 {
    %h = plan.buffer "hidden" size = rows * 1024 + blocks * 0 + 0 at 0 + blocks * 0
    %s = plan.buffer "scores" size = rows * 0 + blocks * 16 + 0 at 3072 + blocks * 0
    %logits = plan.buffer "logits" size = rows * 0 + blocks * 0 + 1024 at 2048 + blocks * 0
    %w = plan.weight @w offset 64
    %kv = plan.pool offset 18432
    %ids = plan.batch token_ids
    %n = plan.scalar -5
    plan.launch @norm(r %ids : !plan.pointer, w %h : !plan.buffer, w %s : !plan.buffer) grid [2, blocks(4), 1] label "norm"
    plan.tap hidden layer = 1 row_bytes = 1024 %h
    plan.launch @head(r %w : !plan.pointer, rw %kv : !plan.pointer, r %n : i64, w %logits : !plan.buffer) grid [4, 1, 1] label "head"
    plan.output %logits
  }
}
)mlir";

class PlanModuleTest : public ::testing::Test {
protected:
  PlanModuleTest() { context.loadDialect<planir::PlanDialect>(); }

  mlir::MLIRContext context;
};

} // namespace m3c::test
