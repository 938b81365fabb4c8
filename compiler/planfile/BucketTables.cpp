#include "compiler/planfile/BucketTables.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

namespace m3c {

namespace {

static_assert(int(planir::BatchArray::Counts) == int(plan::BatchArray::Counts) &&
              int(planir::BatchArray::TokenIds) == int(plan::BatchArray::TokenIds) &&
              int(planir::BatchArray::Positions) == int(plan::BatchArray::Positions) &&
              int(planir::BatchArray::SequenceOfRow) == int(plan::BatchArray::SequenceOfRow) &&
              int(planir::BatchArray::PageTable) == int(plan::BatchArray::PageTable) &&
              int(planir::BatchArray::LogitRows) == int(plan::BatchArray::LogitRows) &&
              int(planir::BatchArray::Counters) == int(plan::BatchArray::Counters));
static_assert(int(planir::Access::Read) == int(plan::Access::Read) &&
              int(planir::Access::Write) == int(plan::Access::Write) &&
              int(planir::Access::ReadWrite) == int(plan::Access::ReadWrite));
static_assert(int(planir::TapKind::Blocks) == int(plan::TapKind::Blocks) &&
              int(planir::TapKind::Experts) == int(plan::TapKind::Experts) &&
              int(planir::TapKind::Hidden) == int(plan::TapKind::Hidden));

uint32_t indexOf(const std::map<std::string, uint32_t> &indices, llvm::StringRef symbol,
                 const char *what) {
  auto found = indices.find(symbol.str());
  if (found == indices.end())
    throw Error(fmt::format("{} {} is used and was not built", what, symbol.str()), "plan file");
  return found->second;
}

// A buffer whose place may not depend on the count of blocks.
uint64_t fixedOffset(mlir::Value value, const char *use) {
  auto buffer = value.getDefiningOp<planir::BufferOp>();
  if (!buffer.getOffset() || *buffer.getBlocksScale() != 0)
    throw Error(fmt::format("buffer {} of {} has no fixed place", buffer.getName().str(), use),
                "plan file", "its offset may not depend on the count of blocks");
  return uint64_t(*buffer.getOffset());
}

/// Bytes of each page from `offset` on: keys and values of all heads of a layer, or its index keys.
uint64_t pageBytesFrom(uint64_t offset, const plan::TablesT &tables) {
  for (const auto &layer : tables.cache->layers) {
    if (offset == uint64_t(layer->kv_offset))
      return 2 * tables.model->kv_heads * tables.cache->slot_bytes;
    if (layer->index_offset >= 0 && offset == uint64_t(layer->index_offset))
      return tables.cache->slot_bytes;
  }
  return 0;
}

std::unique_ptr<plan::ArgT> argument(mlir::Value value, const SymbolIndices &indices,
                                     const plan::TablesT &tables) {
  auto arg = std::make_unique<plan::ArgT>();
  mlir::Operation *op = value.getDefiningOp();
  if (auto buffer = llvm::dyn_cast<planir::BufferOp>(op)) {
    arg->kind = plan::ArgKind::Arena;
    arg->offset = uint64_t(*buffer.getOffset());
    arg->blocks_scale = uint64_t(*buffer.getBlocksScale());
    arg->row_bytes = uint64_t(buffer.getRowBytes());
    arg->block_bytes = uint64_t(buffer.getBlockBytes());
    arg->fixed_bytes = uint64_t(buffer.getFixedBytes());
  } else if (auto weight = llvm::dyn_cast<planir::WeightOp>(op)) {
    arg->kind = plan::ArgKind::Weight;
    arg->index = indexOf(indices.weights, weight.getSymbol(), "weight buffer");
    arg->offset = uint64_t(weight.getOffset());
    arg->fixed_bytes = tables.weights.at(arg->index)->bytes - arg->offset;
  } else if (auto pool = llvm::dyn_cast<planir::PoolOp>(op)) {
    arg->kind = plan::ArgKind::CachePool;
    arg->offset = uint64_t(pool.getOffset());
    arg->fixed_bytes = pageBytesFrom(arg->offset, tables);
  } else if (auto batch = llvm::dyn_cast<planir::BatchOp>(op)) {
    arg->kind = plan::ArgKind::Batch;
    arg->index = uint32_t(batch.getArray());
  } else {
    arg->kind = plan::ArgKind::Scalar;
    arg->value = llvm::cast<planir::ScalarOp>(op).getValue();
  }
  return arg;
}

std::unique_ptr<plan::LaunchT> launchTable(planir::LaunchOp launch, const SymbolIndices &indices,
                                           const plan::TablesT &tables) {
  auto table = std::make_unique<plan::LaunchT>();
  table->kernel = indexOf(indices.kernels, launch.getKernel(), "kernel");
  table->label = launch.getLabel().str();
  for (auto [i, value] : llvm::enumerate(launch.getArguments())) {
    table->args.push_back(argument(value, indices, tables));
    table->args.back()->access = plan::Access(launch.getAccess()[i]);
  }
  auto dimension = [&](int i) {
    return std::make_unique<plan::GridDim>(uint32_t(launch.getGridCount()[i]),
                                           uint32_t(launch.getGridBlocksPerItem()[i]));
  };
  table->grid_x = dimension(0);
  table->grid_y = dimension(1);
  table->grid_z = dimension(2);
  return table;
}

} // namespace

std::unique_ptr<plan::BucketT> bucketTable(planir::BucketOp bucket, const SymbolIndices &indices,
                                           const plan::TablesT &tables) {
  if (!bucket.getArenaBytes())
    throw Error(fmt::format("the bucket of {} rows has no arena", bucket.getRows()), "plan file",
                "plan-assign-arena has not run");
  auto table = std::make_unique<plan::BucketT>();
  table->rows = uint32_t(bucket.getRows());
  table->logit_rows = uint32_t(bucket.getLogitRows());
  table->arena_bytes = uint64_t(*bucket.getArenaBytes());
  table->arena_bytes_per_block = uint64_t(*bucket.getArenaBytesPerBlock());
  for (mlir::Operation &op : bucket.getBody().front()) {
    if (auto launch = llvm::dyn_cast<planir::LaunchOp>(op)) {
      table->launches.push_back(launchTable(launch, indices, tables));
    } else if (auto tap = llvm::dyn_cast<planir::TapOp>(op)) {
      auto entry = std::make_unique<plan::TapT>();
      entry->kind = plan::TapKind(tap.getKind());
      entry->layer = uint32_t(tap.getLayer());
      entry->after_launch = uint32_t(table->launches.size() - 1);
      entry->offset = fixedOffset(tap.getBuffer(), "a tap");
      entry->row_bytes = uint64_t(tap.getRowBytes());
      table->taps.push_back(std::move(entry));
    } else if (auto output = llvm::dyn_cast<planir::OutputOp>(op)) {
      table->logits_offset = fixedOffset(output.getLogits(), "the logits");
    }
  }
  return table;
}

} // namespace m3c
