#include "runtime/capsule/MadeUpStep.h"

#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/plan/List.h"
#include "runtime/plan/PlanFormat.h"
#include "runtime/schedule/StepGraphs.h"
#include "runtime/schedule/StepPlanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace m3c {

namespace {

/// One random number after another, the same on every machine.
class Numbers {
public:
  explicit Numbers(uint64_t seed) : engine(seed) {}
  uint32_t below(uint32_t limit) { return uint32_t(engine() % limit); }
  /// Of either sign, between 1/8 and 2 in size.
  float value() {
    float size = float(1 + below(15)) / 8;
    return below(2) ? size : -size;
  }

private:
  std::mt19937_64 engine;
};

/// One slot of the cache with finite values of moderate size (docs/plan-format.md has the layouts).
void fillSlot(std::span<std::byte> slot, plan::CacheType type, Numbers &numbers) {
  auto put = [&](size_t at, auto code) { std::memcpy(&slot[at], &code, sizeof(code)); };
  constexpr uint32_t e4m3Half = 0x30, e4m3Steps = 16; // from 0.5 to less than 2
  switch (type) {
  case plan::CacheType::F32:
    for (size_t at = 0; at + 4 <= slot.size(); at += 4)
      put(at, numbers.value());
    return;
  case plan::CacheType::Bf16:
    for (size_t at = 0; at + 2 <= slot.size(); at += 2)
      put(at, formats::floatToBf16(numbers.value()));
    return;
  case plan::CacheType::Fp8:
    for (size_t at = 0; at < slot.size(); ++at)
      put(at, uint8_t((e4m3Half + numbers.below(e4m3Steps)) | numbers.below(2) << 7));
    return;
  case plan::CacheType::Nvfp4: // eight bytes of codes for each scale
    for (size_t at = 0; at < slot.size(); ++at)
      put(at, uint8_t(at < slot.size() / 9 * 8 ? numbers.below(256)
                                               : e4m3Half + numbers.below(e4m3Steps)));
    return;
  }
}

} // namespace

uint64_t MadeUpStep::pageBytes() const { return engine.tables().cache()->page_bytes(); }

std::vector<MadeUpStep::Sequence> MadeUpStep::sequencesOf(const MadeUpBatch &batch,
                                                          uint64_t pageTokens) {
  std::vector<Sequence> sequences = {{batch.tokens, 1}};
  if (batch.rows > 2) {
    uint32_t rows = batch.rows - 2;
    sequences.push_back({pageTokens - std::min<uint64_t>(pageTokens, (rows + 1) / 2), rows});
  }
  if (batch.rows > 1)
    sequences.push_back({0, 1});
  return sequences;
}

MadeUpStep::MadeUpStep(const Engine &engine, const plan::Bucket &bucket, const MadeUpBatch &batch)
    : engine(engine), bucket(bucket), work(engine.device().createStream()) {
  const plan::Model &model = *engine.tables().model();
  if (batch.rows == 0 || batch.rows > bucket.rows())
    throw Error(fmt::format("a step of {} rows is not possible", batch.rows), "--rows",
                fmt::format("the bucket has 1 to {}", bucket.rows()));
  uint64_t perPage = engine.tables().cache()->page_tokens();
  std::vector<Sequence> sequences = sequencesOf(batch, perPage);
  for (const Sequence &sequence : sequences)
    if (sequence.before + sequence.rows > model.max_positions())
      throw Error(
          fmt::format("a sequence of {} tokens is not possible", sequence.before + sequence.rows),
          "--tokens, --rows", fmt::format("the model has {} positions", model.max_positions()),
          "take fewer");
  fillPages(sequences, batch.seed);
  fillArrays(sequences, batch.seed);
  arena = engine.device().allocate(
      std::max<uint64_t>(64, bucket.arena_bytes() + bucket.arena_bytes_per_block() * tableRow),
      hal::MemoryKind::Device, "the arena of activations");
  work->fill(*arena, 0, arena->size(), 0xff);
  work->synchronize();
}

void MadeUpStep::fillPages(const std::vector<Sequence> &sequences, uint64_t seed) {
  const plan::Cache &cache = *engine.tables().cache();
  size_t count = 1; // one that no sequence has
  for (const Sequence &sequence : sequences) {
    uint64_t length = sequence.before + sequence.rows;
    pagesOf.emplace_back((length + cache.page_tokens() - 1) / cache.page_tokens());
    count += pagesOf.back().size();
    tableRow = std::max(tableRow, blocksBucket(pagesOf.back().size()));
  }
  Numbers numbers(seed);
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[numbers.below(uint32_t(i))]);
  pool = engine.device().allocate(count * cache.page_bytes(), hal::MemoryKind::Device, "the cache");
  work->fill(*pool, 0, pool->size(), 0xff);
  std::vector<std::byte> page(cache.page_bytes());
  uint64_t slots = 2 * uint64_t(engine.tables().model()->kv_heads());
  for (std::vector<int32_t> &list : pagesOf)
    for (int32_t &id : list) {
      id = order.back();
      order.pop_back();
      auto fill = [&](uint64_t offset) {
        fillSlot(std::span(page).subspan(offset, cache.slot_bytes()), cache.type(), numbers);
      };
      for (const plan::CacheLayer *layer : plan::list(cache.layers())) {
        for (uint64_t slot = 0; slot < slots; ++slot)
          fill(uint64_t(layer->kv_offset()) + slot * cache.slot_bytes());
        if (layer->index_offset() >= 0)
          fill(uint64_t(layer->index_offset()));
      }
      work->write(*pool, uint64_t(id) * cache.page_bytes(), page);
      pages.push_back(id);
    }
  std::ranges::sort(pages);
}

void MadeUpStep::fillArrays(const std::vector<Sequence> &sequences, uint64_t seed) {
  // Numbers of rows that the step has not are no number of anything.
  std::vector<int32_t> ids(bucket.rows(), -1), positions = ids, owners = ids, table, logitRows;
  Numbers numbers(seed + 1);
  size_t row = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (uint32_t i = 0; i < sequences[s].rows; ++i, ++row) {
      ids[row] = int32_t(numbers.below(engine.tables().model()->vocab()));
      positions[row] = int32_t(sequences[s].before + i);
      owners[row] = int32_t(s);
    }
    if (logitRows.size() < bucket.logit_rows())
      logitRows.push_back(int32_t(row - 1));
    table.insert(table.end(), pagesOf[s].begin(), pagesOf[s].end());
    table.resize((s + 1) * tableRow, 0);
  }
  std::vector<int32_t> counts = {int32_t(row), int32_t(sequences.size()), int32_t(logitRows.size()),
                                 int32_t(tableRow)};
  logitRows.resize(bucket.rows(), -1);
  auto set = [&](plan::BatchArray which, const std::vector<int32_t> &list) {
    auto bytes = std::as_bytes(std::span(list));
    std::unique_ptr<hal::Buffer> &buffer = arrays[size_t(which)];
    buffer = engine.device().allocate(bytes.size(), hal::MemoryKind::Device,
                                      plan::EnumNameBatchArray(which));
    work->write(*buffer, 0, bytes);
  };
  set(plan::BatchArray::Counts, counts);
  set(plan::BatchArray::TokenIds, ids);
  set(plan::BatchArray::Positions, positions);
  set(plan::BatchArray::SequenceOfRow, owners);
  set(plan::BatchArray::PageTable, table);
  set(plan::BatchArray::LogitRows, logitRows);
  set(plan::BatchArray::Counters, std::vector<int32_t>(plan::counters, 0));
}

MadeUpStep::Place MadeUpStep::placeOf(const plan::Arg &arg) const {
  switch (arg.kind()) {
  case plan::ArgKind::Arena:
    return {arena.get(),
            arg.offset() + arg.blocks_scale() * tableRow,
            arg.row_bytes() * bucket.rows() + arg.block_bytes() * tableRow + arg.fixed_bytes(),
            {},
            "arena"};
  case plan::ArgKind::Weight: {
    const hal::Buffer &memory = engine.boundWeights().buffer();
    return {&memory,
            engine.boundWeights().address(arg.index()) - memory.address() + arg.offset(),
            arg.fixed_bytes(),
            {},
            engine.tables().weights()->Get(arg.index())->symbol()->str()};
  }
  case plan::ArgKind::CachePool:
    return {pool.get(), arg.offset(), 0, PageRange{arg.offset(), arg.fixed_bytes()}, "cache"};
  case plan::ArgKind::Batch:
    return {arrays[arg.index()].get(),
            0,
            arrays[arg.index()]->size(),
            {},
            plan::EnumNameBatchArray(plan::BatchArray(arg.index()))};
  case plan::ArgKind::Scalar:
    break;
  }
  return {nullptr, uint64_t(arg.value()), 0, {}, "number"};
}

uint64_t MadeUpStep::parameter(const plan::Arg &arg) const {
  Place place = placeOf(arg);
  return place.value + (place.buffer ? place.buffer->address() : 0);
}

void MadeUpStep::launch(const plan::Launch &launch) {
  std::vector<uint64_t> parameters;
  for (const plan::Arg *arg : plan::list(launch.args()))
    parameters.push_back(parameter(*arg));
  work->launch(engine.kernel(launch.kernel()), gridOf(launch, tableRow), parameters,
               launch.label() ? launch.label()->string_view() : "");
  work->synchronize();
}

} // namespace m3c
