#include "passes/kernel/WorkShare.h"

using namespace mlir;

namespace m3c::kernel {

EmittedShare emitShare(KernelBuilder &kb, Value count, Value parts, Value part) {
  auto &b = kb.builder();
  Value each = b.createOrFold<arith::DivSIOp>(count, parts);
  Value longer = kb.sub(count, kb.mul(each, parts));
  Value begin = kb.add(kb.mul(part, each), kb.min(part, longer));
  Value more = kb.selectf(kb.less(part, longer), kb.index(1), kb.index(0));
  return {begin, kb.add(kb.add(begin, each), more)};
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
