#include "passes/kernel/families/cache/CacheSlots.h"

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

/// Codes of 16 dimensions or more, and for NVFP4 their scale, or scales of each 16.
static std::pair<Value, Value> encodeGroups(KernelBuilder &kb, m3::CacheStorage storage,
                                            Value tile) {
  auto &b = kb.builder();
  int64_t dims = cast<tile::TileType>(tile.getType()).getCols(), groups = dims / 16;
  auto encode = [&](Type type, Value values, tile::Format format) -> Value {
    return tile::EncodeOp::create(b, kb.tile(1, dims, type), values, format, StringAttr());
  };
  switch (storage) {
  case m3::CacheStorage::F32:
    return {tile, Value()};
  case m3::CacheStorage::BF16:
    return {encode(b.getI16Type(), tile, tile::Format::BF16), Value()};
  case m3::CacheStorage::FP8:
    return {encode(b.getI8Type(), kb.roundedToBf16(tile), tile::Format::E4M3), Value()};
  case m3::CacheStorage::NVFP4: {
    Type codes = kb.tile(1, groups * 8, b.getI8Type());
    Value rounded = kb.roundedToBf16(tile);
    if (groups == 1) {
      auto one = tile::QuantGroupOp::create(b, codes, b.getI8Type(), rounded, StringAttr());
      return {one.getCodes(), one.getScale()};
    }
    auto all = tile::QuantGroupsOp::create(b, codes, kb.tile(1, groups, b.getI8Type()), rounded,
                                           StringAttr());
    return {all.getCodes(), all.getScales()};
  }
  }
  llvm_unreachable("storage");
}

void storeSlotGroups(KernelBuilder &kb, m3::CacheStorage storage, int64_t dims, Value pool,
                     Value offset, Value token, int64_t firstGroup, ValueRange tiles, bool values) {
  SmallVector<std::pair<Value, Value>> encoded;
  for (Value tile : tiles)
    encoded.push_back(encodeGroups(kb, storage, tile));
  int64_t together = cast<tile::TileType>(tiles.front().getType()).getCols() / 16;
  auto codes = cast<tile::TileType>(encoded.front().first.getType());
  int64_t width = codes.getCols() / together; // 8 bytes of packed codes, or 16 elements
  Value slot = kb.reinterpret(pool, offset,
                              kb.view({m3::blockTokens, dims / 16 * width}, codes.getElement()));
  bool quads = values && together > 1; // scales of a group of four tokens lie side by side
  Value scales;
  if (encoded.front().second) {
    SmallVector<int64_t> shape = {m3::blockTokens * dims / 16};
    if (quads)
      shape = {m3::blockTokens / 4, dims / 16, 4};
    scales = kb.reinterpret(pool, kb.add(offset, m3::blockTokens * dims / 2),
                            kb.view(shape, kb.byteType()));
  }
  for (auto [i, group] : llvm::enumerate(encoded)) {
    Value number = kb.index(firstGroup + int64_t(i) * together);
    kb.store(group.first, slot, {token, kb.mul(number, width)}, {1, width * together});
    if (!group.second)
      continue;
    if (quads)
      kb.store(group.second, scales, {kb.div(token, 4), number, kb.rem(token, 4)},
               {1, together, 1});
    else if (Values at = {scaleIndex(kb, dims, token, number, values)}; together > 1)
      kb.store(group.second, scales, at, {together});
    else
      kb.storeScalar(group.second, scales, at);
  }
}

} // namespace m3c::kernel
