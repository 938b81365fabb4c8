// Experts of many rows: products on rows that stand packed in shared memory (SharedProduct.h).
//
// Each expert's rows are cut into tiles, which launches before the products pack. The products
// leave the outputs of experts in memory, where a last launch adds them. The shared expert goes
// through the families of dense layers.
#pragma once

#include "passes/kernel/families/experts/ExpertKernels.h"
#include "passes/kernel/products/SharedProduct.h"

namespace m3c::kernel {

/// Tiles of up to `rows` entries of one expert. The first tile of expert e is begin / rows + e
/// where its entries start at `begin`: no expert needs to know how many tiles the others have, and
/// few tiles stay empty. `owners` has the expert of each tile.
class ExpertTiles {
public:
  ExpertTiles(KernelBuilder &kb, Groups groups, Value owners, int64_t rows)
      : kb(kb), groups(groups), owners(owners), rows(rows) {}
  static int64_t most(int64_t entries, int64_t experts, int64_t rows) {
    return entries / rows + experts;
  }

  /// Notes the tiles of an expert, from one warp.
  void note(Value expert, Value begin, Value end);
  /// Calls `body` with the expert and the entries begin … end − 1 of a tile that has any; the list
  /// has `entries`.
  void whenFilled(Value tile, Value entries,
                  llvm::function_ref<void(Value expert, Value begin, Value end)> body);

private:
  Value first(Value expert, Value begin) { return kb.add(kb.div(begin, rows), expert); }

  KernelBuilder &kb;
  Groups groups;
  Value owners;
  int64_t rows;
};

/// Launches what lists which entries each expert has, a work item for each; with `tileRows`, their
/// tiles too. The buffer of the owners of tiles, or null.
Value launchExpertList(StepLowering &step, Value ids, Value groups, int64_t experts, int64_t topK,
                       int64_t tileRows, llvm::StringRef label);

/// Buffers and schedules of one layer's experts of many rows.
struct PackedExperts {
  StepLowering &step;
  const MoeShape &moe;
  Value groups, owners;

  /// z [rows·k,I] of x [rows,H].
  void launchUp(Value x, const Schedule &schedule, Value z, llvm::StringRef label);
  /// y [rows·k,H] of z.
  void launchDown(Value z, const Schedule &schedule, Value y, llvm::StringRef label);

private:
  Value pack(Value x, int64_t k, int64_t tileRows, bool listed, llvm::StringRef label);
  using ProductBody =
      llvm::function_ref<void(KernelBuilder &kb, Groups &groups, const Product &product,
                              Value panel, Value expert, Value out)>;
  void launchProduct(llvm::StringRef family, const PackedWeight &weight, Value stages,
                     const Schedule &schedule, int64_t width, Value out, llvm::StringRef label,
                     ProductBody body);
  int64_t tiles(int64_t tileRows) const;
};

/// out [rows,H]: the sum of residual [rows,H], routed [rows·k,H] and shared [rows,H] outputs;
/// residual and shared may be null.
void launchExpertSum(StepLowering &step, const MoeShape &moe, Value weights, Value routed,
                     Value residual, Value shared, Value out, llvm::StringRef label);

} // namespace m3c::kernel
