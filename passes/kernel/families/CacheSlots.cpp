#include "passes/kernel/families/CacheSlots.h"

using namespace mlir;

namespace m3c::kernel {

Value scaleIndex(KernelBuilder &kb, int64_t dims, Value token, Value group, bool values) {
  int64_t groups = dims / 16;
  if (!values)
    return kb.add(kb.mul(token, groups), group);
  // V: quads of tokens, (token / 4)·4·groups + group·4 + token % 4.
  Value quad = kb.mul(kb.div(token, 4), 4 * groups);
  return kb.add(kb.add(quad, kb.mul(group, 4)), kb.rem(token, 4));
}

static Value roundedToBf16(KernelBuilder &kb, Value tile) {
  return kb.map(tile, 1, 16,
                [&](ValueRange args) { return kb.round(args[0], tile::Format::BF16); });
}

/// Codes of 16 dimensions, and for NVFP4 their scale.
static std::pair<Value, Value> encodeGroup(KernelBuilder &kb, m3::CacheStorage storage,
                                           Value tile) {
  auto &b = kb.builder();
  auto encode = [&](Type type, Value values, tile::Format format) -> Value {
    return tile::EncodeOp::create(b, kb.tile(1, 16, type), values, format, StringAttr());
  };
  switch (storage) {
  case m3::CacheStorage::F32:
    return {tile, Value()};
  case m3::CacheStorage::BF16:
    return {encode(b.getI16Type(), tile, tile::Format::BF16), Value()};
  case m3::CacheStorage::FP8:
    return {encode(b.getI8Type(), roundedToBf16(kb, tile), tile::Format::E4M3), Value()};
  case m3::CacheStorage::NVFP4: {
    auto quantised = tile::QuantGroupOp::create(b, kb.tile(1, 8, b.getI8Type()), b.getI8Type(),
                                                roundedToBf16(kb, tile), StringAttr());
    return {quantised.getCodes(), quantised.getScale()};
  }
  }
  llvm_unreachable("storage");
}

void storeSlotGroups(KernelBuilder &kb, m3::CacheStorage storage, int64_t dims, Value pool,
                     Value offset, Value token, int64_t firstGroup, ValueRange tiles, bool values) {
  SmallVector<std::pair<Value, Value>> encoded;
  for (Value tile : tiles)
    encoded.push_back(encodeGroup(kb, storage, tile));
  auto codes = cast<tile::TileType>(encoded.front().first.getType());
  int64_t width = codes.getCols(); // 8 bytes of packed codes, or 16 elements
  Value slot = kb.reinterpret(pool, offset,
                              kb.view({m3::blockTokens, dims / 16 * width}, codes.getElement()));
  Value scales;
  if (encoded.front().second)
    scales = kb.reinterpret(pool, kb.add(offset, m3::blockTokens * dims / 2),
                            kb.view({m3::blockTokens * dims / 16}, kb.byteType()));
  for (auto [i, group] : llvm::enumerate(encoded)) {
    int64_t number = firstGroup + int64_t(i);
    kb.store(group.first, slot, {token, kb.index(number * width)}, {1, width});
    if (group.second)
      kb.storeScalar(group.second, scales, {scaleIndex(kb, dims, token, kb.index(number), values)});
  }
}

} // namespace m3c::kernel
