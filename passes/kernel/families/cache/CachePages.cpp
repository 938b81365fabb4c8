#include "passes/kernel/families/cache/CachePages.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

//===- Layout ---------------------------------------------------------------------------------===//

CachePages::CachePages(StepLowering &step, m3::CacheType type) : type(type) {
  planir::CacheOp layout = *step.module.getOps<planir::CacheOp>().begin();
  pageBytes = layout.getPageBytes();
  kvOffsets = layout.getKvOffsets();
  indexOffsets = layout.getIndexOffsets();
  slotBytes = layout.getSlotBytes();
  indexSlotBytes = type.getIndexDim() ? kernel::slotBytes(type.getKv(), type.getIndexDim()) : 0;
}

std::string CachePages::spell() const {
  return formatv("{0}{1}_{2}", m3::stringifyCacheStorage(type.getKv()),
                 type.getGrid() == m3::CacheGrid::E4M3 ? "_e4m3" : "", pageBytes);
}

int64_t CachePages::bits() const {
  switch (type.getKv()) {
  case m3::CacheStorage::F32:
    return 32;
  case m3::CacheStorage::BF16:
    return 16;
  case m3::CacheStorage::FP8:
    return 8;
  case m3::CacheStorage::NVFP4:
    return 4;
  }
  llvm_unreachable("storage");
}

int64_t dividing(int64_t n, int64_t wanted) {
  while (n % wanted)
    wanted /= 2;
  return wanted;
}

//===- Rows -----------------------------------------------------------------------------------===//

SmallVector<Type> BatchRows::parameterTypes(MLIRContext *context) {
  Type i32 = IntegerType::get(context, 32);
  Type list = tile::ViewType::get(context, {ShapedType::kDynamic}, i32, tile::Space::Global);
  return {tile::ViewType::get(context, {4}, i32, tile::Space::Global), list, list, list};
}

SmallVector<LaunchArgument> BatchRows::arguments(StepLowering &step) {
  SmallVector<LaunchArgument> arguments;
  for (planir::BatchArray array :
       {planir::BatchArray::Counts, planir::BatchArray::Positions,
        planir::BatchArray::SequenceOfRow, planir::BatchArray::PageTable})
    arguments.push_back({step.batch(array), planir::Access::Read});
  return arguments;
}

BatchRows::BatchRows(KernelBuilder &kb)
    : kb(kb), counts(kb.parameter(0)), positions(kb.parameter(1)), sequences(kb.parameter(2)),
      table(kb.parameter(3)), rows(kb.loadIndex(counts, {kb.index(0)})),
      tableLength(kb.loadIndex(counts, {kb.index(3)})) {}

Value BatchRows::position(Value row) { return kb.loadIndex(positions, {row}); }

Value BatchRows::lastPosition(Value first, Value last) {
  return kb.forLoop(first, last, 1, kb.index(0), [&](Value row, ValueRange carried) {
    return Values{kb.max(carried[0], position(row))};
  })[0];
}

Value BatchRows::page(Value row, Value block) {
  Value sequence = kb.loadIndex(sequences, {row});
  return kb.loadIndex(table, {kb.add(kb.mul(sequence, tableLength), block)});
}

void BatchRows::eachRun(Value begin, Value end, int64_t tileRows,
                        function_ref<void(Value, Value)> body) {
  if (tileRows == 1) {
    kb.when(kb.less(begin, end), [&] { body(begin, end); });
    return;
  }
  kb.forLoop(begin, end, 1, [&](Value row) {
    Value sequence = kb.loadIndex(sequences, {row});
    Value before = kb.loadIndex(sequences, {kb.max(kb.add(row, -1), begin)});
    Value same = kb.both(kb.less(begin, row), kb.equal(sequence, before));
    kb.when(
        same, [] {},
        [&] {
          Value last = kb.forLoop(
              kb.add(row, 1), end, 1, kb.add(row, 1), [&](Value next, ValueRange carried) {
                Value extends = kb.both(kb.equal(carried[0], next),
                                        kb.equal(kb.loadIndex(sequences, {next}), sequence));
                return Values{kb.selectf(extends, kb.add(next, 1), carried[0])};
              })[0];
          body(row, last);
        });
  });
}

Value visibleKeys(KernelBuilder &kb, Value position, Value block) {
  Value past = kb.sub(kb.add(position, 1), kb.mul(block, m3::blockTokens));
  return kb.max(kb.min(past, kb.index(m3::blockTokens)), kb.index(0));
}

//===- Slots ----------------------------------------------------------------------------------===//

SlotReader::SlotReader(KernelBuilder &kb, const CachePages &cache, Slot slot, int64_t dims,
                       Value pool, Value offset)
    : kb(kb), cache(cache), slot(slot), dims(dims) {
  auto plain = [&](tile::Format elements, Type code) {
    format = elements;
    codes = kb.reinterpret(pool, offset, kb.view({m3::blockTokens, dims}, code));
  };
  switch (cache.type.getKv()) {
  case m3::CacheStorage::F32:
    plain(tile::Format::F32, kb.f32Type());
    break;
  case m3::CacheStorage::BF16:
    plain(tile::Format::BF16, kb.builder().getI16Type());
    break;
  case m3::CacheStorage::FP8:
    plain(tile::Format::E4M3, kb.byteType());
    break;
  case m3::CacheStorage::NVFP4:
    format = tile::Format::E2M1;
    codes = kb.reinterpret(pool, offset, kb.view({m3::blockTokens, dims / 2}, kb.byteType()));
    scales = kb.reinterpret(pool, kb.add(offset, m3::blockTokens * dims / 2),
                            kb.view({m3::blockTokens * groups()}, kb.byteType()));
  }
}

Value SlotReader::scaleIndex(Value token, Value group) {
  if (slot == Slot::Keys)
    return kb.add(kb.mul(token, groups()), group);
  Value quad = kb.add(kb.mul(kb.div(token, 4), 4 * groups()), kb.rem(token, 4));
  return kb.add(quad, kb.mul(group, 4));
}

Value SlotReader::values(Value token, Value group) {
  auto &b = kb.builder();
  if (!scales) {
    Value stored = kb.load(codes, {token, kb.mul(group, 16)}, {1, 16}, 1, 16);
    return tile::DecodeOp::create(b, kb.tile(1, 16), stored, format, StringAttr());
  }
  Value stored = kb.load(codes, {token, kb.mul(group, 8)}, {1, 8}, 1, 8);
  Value scale = kb.loadScalar(scales, {scaleIndex(token, group)});
  bool grid = cache.type.getGrid() == m3::CacheGrid::E4M3;
  return tile::DequantGroupOp::create(b, kb.tile(1, 16), stored, scale, grid, StringAttr());
}

void SlotReader::bringAhead(Value token, int64_t count) {
  auto &b = kb.builder();
  auto view = cast<tile::ViewType>(codes.getType());
  int64_t tokenBytes = view.getStride(0) * tile::elementBytes(view.getElement());
  tile::CopyOp::create(b, codes, ValueRange{token, kb.index(0)}, count * tokenBytes);
  if (scales)
    tile::CopyOp::create(b, scales, ValueRange{scaleIndex(token, kb.index(0))}, count * groups());
}

void SlotReader::fill(Value first, int64_t tokens, Value stage) {
  kb.forLoop(kb.index(0), kb.index(tokens), 1, [&](Value i) {
    for (int64_t g = 0; g < groups(); ++g)
      kb.store(values(kb.add(first, i), kb.index(g)), stage, {i, kb.index(16 * g)}, {1, 16});
  });
}

Value loadInSlotOrder(KernelBuilder &kb, const CachePages &cache, Value view, ValueRange indices,
                      ArrayRef<int64_t> sizes) {
  if (!cache.paired())
    return kb.loadF32(view, indices, sizes, 1, 16);
  return kb.reshape(kb.transpose(kb.loadF32(view, indices, sizes, 2, 8)), 1, 16);
}

Value loadFromSlotOrder(KernelBuilder &kb, const CachePages &cache, Value view, ValueRange indices,
                        ArrayRef<int64_t> sizes) {
  if (!cache.paired())
    return kb.load(view, indices, sizes, 1, 16);
  return kb.reshape(kb.transpose(kb.load(view, indices, sizes, 8, 2)), 1, 16);
}

//===- Products -------------------------------------------------------------------------------===//

Values stagedKeys(KernelBuilder &kb, Value stage, Value key, Value group, int64_t keys,
                  int64_t lanes) {
  Values parts;
  for (int64_t d = 0; d < 16; d += lanes)
    parts.push_back(
        kb.load(stage, {key, kb.add(kb.mul(group, 16), d)}, {keys, lanes}, keys, lanes));
  return parts;
}

Values directKeys(KernelBuilder &kb, SlotReader &slot, Value key, Value group, int64_t keys,
                  int64_t lanes) {
  Values rows, parts;
  for (int64_t i = 0; i < keys; ++i)
    rows.push_back(slot.values(kb.add(key, i), group));
  Value all = kb.stack(rows);
  for (int64_t d = 0; d < 16; d += lanes)
    parts.push_back(lanes == 16 ? all : kb.slice(all, 0, d, keys, lanes));
  return parts;
}

Value emitDots(KernelBuilder &kb, KeySource source, Value key, int64_t keys, Value query,
               Value slot, int64_t heads, int64_t lanes) {
  int64_t dims = cast<tile::ViewType>(query.getType()).getShape()[1];
  Values start(heads, kb.fill(0.0, keys, lanes));
  Values sums =
      kb.forLoop(kb.index(0), kb.index(dims / 16), 1, start, [&](Value group, ValueRange carried) {
        Values sums(carried.begin(), carried.end());
        for (auto [part, k] : llvm::enumerate(source(key, group)))
          for (int64_t h = 0; h < heads; ++h) {
            Value d = kb.add(kb.mul(group, 16), int64_t(part) * lanes);
            Value q = kb.load(query, {kb.add(slot, h), d}, {1, lanes}, 1, lanes);
            sums[h] = kb.fma(k, q, sums[h]);
          }
        return sums;
      });
  return kb.sumLanes(heads == 1 ? sums[0] : kb.stack(sums));
}

} // namespace m3c::kernel
