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

void storeSlotGroup(KernelBuilder &kb, m3::CacheStorage storage, int64_t dims, Value pool,
                    Value offset, Value token, int64_t group, Value tile, bool values) {
  auto &b = kb.builder();
  Value dim = kb.index(16 * group);
  auto plain = [&](Value codes) {
    Type element = cast<tile::TileType>(codes.getType()).getElement();
    Value slot = kb.reinterpret(pool, offset, kb.view({m3::blockTokens, dims}, element));
    kb.store(codes, slot, {token, dim}, {1, 16});
  };
  switch (storage) {
  case m3::CacheStorage::F32:
    return plain(tile);
  case m3::CacheStorage::BF16:
    return plain(tile::EncodeOp::create(b, kb.tile(1, 16, b.getI16Type()), tile, tile::Format::BF16,
                                        StringAttr()));
  case m3::CacheStorage::FP8:
    return plain(tile::EncodeOp::create(b, kb.tile(1, 16, b.getI8Type()), roundedToBf16(kb, tile),
                                        tile::Format::E4M3, StringAttr()));
  case m3::CacheStorage::NVFP4: {
    auto quantised = tile::QuantGroupOp::create(b, kb.tile(1, 8, b.getI8Type()), b.getI8Type(),
                                                roundedToBf16(kb, tile), StringAttr());
    Value codes = kb.reinterpret(pool, offset, kb.view({m3::blockTokens, dims / 2}, b.getI8Type()));
    kb.store(quantised.getCodes(), codes, {token, kb.index(8 * group)}, {1, 8});
    Value scales = kb.reinterpret(pool, kb.add(offset, m3::blockTokens * dims / 2),
                                  kb.view({m3::blockTokens * dims / 16}, b.getI8Type()));
    kb.storeScalar(quantised.getScale(), scales,
                   {scaleIndex(kb, dims, token, kb.index(group), values)});
    return;
  }
  }
}

} // namespace m3c::kernel
