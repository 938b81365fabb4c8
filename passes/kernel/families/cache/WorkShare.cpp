#include "passes/kernel/families/cache/WorkShare.h"

using namespace mlir;

namespace m3c::kernel {

static Value divided(KernelBuilder &kb, Value x, Value y) {
  return kb.builder().createOrFold<arith::DivSIOp>(x, y);
}

EmittedShare emitShare(KernelBuilder &kb, Value count, Value parts, Value part) {
  Value each = divided(kb, count, parts);
  Value longer = kb.sub(count, kb.mul(each, parts));
  Value begin = kb.add(kb.mul(part, each), kb.min(part, longer));
  Value more = kb.selectf(kb.less(part, longer), kb.index(1), kb.index(0));
  return {begin, kb.add(kb.add(begin, each), more)};
}

EmittedShare emitStretch(KernelBuilder &kb, Value count, Value parts, Value part) {
  auto begin = [&](Value part) { return divided(kb, kb.mul(part, count), parts); };
  return {begin(part), begin(kb.add(part, 1))};
}

Value emitPartOf(KernelBuilder &kb, Value count, Value parts, Value tile) {
  return divided(kb, kb.add(kb.mul(kb.add(tile, 1), parts), -1), count);
}

Value emitFlatParts(KernelBuilder &kb, int64_t most, Value requests, Value alike) {
  auto rounded = [&](Value x, Value y) { return divided(kb, kb.add(x, kb.add(y, -1)), y); };
  Value all = kb.index(most), each = rounded(requests, all); // requests of a part
  Value several = kb.mul(divided(kb, all, requests), requests);
  Value fits = kb.less(requests, kb.index(most + 1));
  Value cut = kb.selectf(fits, several, rounded(requests, each));
  return kb.selectf(alike, cut, all);
}

Value emitUsedParts(KernelBuilder &kb, Value count, Value parts) { return kb.min(count, parts); }

Value emitShareNumber(KernelBuilder &kb, Value parts, Value part, Value first) {
  Value turned = kb.sub(part, first); // both below `parts`
  return kb.selectf(kb.less(turned, kb.index(0)), kb.add(turned, parts), turned);
}

Value emitNextFirst(KernelBuilder &kb, Value parts, Value first, Value count) {
  return kb.builder().createOrFold<arith::RemSIOp>(kb.add(first, count), parts);
}

} // namespace m3c::kernel
