// Pages of the cache as kernels read them: addresses, and slots dequantised into FP32 on-chip
// buffers. Shared by the index score and attention.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

/// The cache of a step, its page layout included (plan.cache).
struct CachePages {
  m3::CacheType type;
  int64_t pageBytes, slotBytes, indexSlotBytes;
  llvm::ArrayRef<int64_t> kvOffsets, indexOffsets; ///< per layer, bytes in the page

  /// Reads the layout that m3-to-tile gave the module.
  CachePages(StepLowering &step, m3::CacheType type);
  /// For kernel names: storage, grid and page size.
  std::string spell() const;
  /// Of a stored element.
  int64_t bits() const;
  /// Whether groups of 16 dequantised values come in the pair order of tile.dequant_group.
  bool paired() const { return type.getKv() == m3::CacheStorage::NVFP4; }
};

/// What a slot holds: index keys and keys keep their NVFP4 scales token by token, values in quads
/// of tokens (docs/plan-format.md).
enum class Slot { Keys, Values };

/// The arrays that describe the rows, as kernel parameters 0 … 3: counts, positions, sequences,
/// page table. Indices and values are `index`.
struct BatchRows {
  explicit BatchRows(KernelBuilder &kb);
  static llvm::SmallVector<Type> parameterTypes(mlir::MLIRContext *context);
  static llvm::SmallVector<LaunchArgument> arguments(StepLowering &step);

  Value position(Value row);
  /// The largest position of rows first … last−1.
  Value lastPosition(Value first, Value last);
  /// Physical page of a logical block of a row's sequence.
  Value page(Value row, Value block);
  /// Calls `body(first, last)` for every run of rows of one sequence in `begin` … `end`−1; a tile
  /// of at most one row is a run.
  void eachRun(Value begin, Value end, int64_t tileRows,
               llvm::function_ref<void(Value, Value)> body);

  KernelBuilder &kb;
  Value counts, positions, sequences, table;
  Value rows;        ///< of the batch
  Value tableLength; ///< blocks of a page-table row
};

/// Keys of `block` that a row at `position` may see: 0 … 128.
Value visibleKeys(KernelBuilder &kb, Value position, Value block);

/// One slot of a page inside a kernel.
class SlotReader {
public:
  /// The slot at byte `offset` of `pool`.
  SlotReader(KernelBuilder &kb, const CachePages &cache, Slot slot, int64_t dims, Value pool,
             Value offset);
  /// 16 dequantised values of a token, group `group` of its dims: a row.
  Value values(Value token, Value group);
  /// Writes tokens `first` … `first`+`tokens`−1 to `stage`, a view [tokens, dims] of f32.
  void fill(Value first, int64_t tokens, Value stage);
  /// Starts to bring `count` tokens from `token` on near.
  void bringAhead(Value token, int64_t count);
  int64_t groups() const { return dims / 16; }

private:
  Value scaleIndex(Value token, Value group);

  KernelBuilder &kb;
  const CachePages &cache;
  Slot slot;
  int64_t dims;
  tile::Format format; ///< of plain elements
  Value codes, scales; ///< scales: NVFP4 only
};

/// 16 values from a view at `indices` (f32 or BF16 codes) in the order that dequantised slots have,
/// and back: a row.
Value loadInSlotOrder(KernelBuilder &kb, const CachePages &cache, Value view,
                      mlir::ValueRange indices, llvm::ArrayRef<int64_t> sizes);
Value loadFromSlotOrder(KernelBuilder &kb, const CachePages &cache, Value view,
                        mlir::ValueRange indices, llvm::ArrayRef<int64_t> sizes);

/// Where products find their keys: 16 dims (group `group`) of keys `key` … as tiles [keys, lanes].
using KeySource = llvm::function_ref<Values(Value key, Value group)>;
/// Keys of a stage, or straight from a slot.
Values stagedKeys(KernelBuilder &kb, Value stage, Value key, Value group, int64_t keys,
                  int64_t lanes);
Values directKeys(KernelBuilder &kb, SlotReader &slot, Value key, Value group, int64_t keys,
                  int64_t lanes);

/// Dot products of `keys` keys from `key` on with `heads` rows of `query` [slots, dims] from `slot`
/// on: one row [heads · keys], head by head. One accumulator vector of `lanes` per key and head
/// over ascending stored dims, then the lanes as a tree: the same for every source.
Value emitDots(KernelBuilder &kb, KeySource source, Value key, int64_t keys, Value query,
               Value slot, int64_t heads, int64_t lanes);

/// The largest of `wanted`, `wanted`/2, … 1 that divides `n`; `wanted` is a power of two.
int64_t dividing(int64_t n, int64_t wanted);

} // namespace m3c::kernel
