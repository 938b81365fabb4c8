// Products of tensor memory: what the descriptors of tcgen05.mma name (PTX ISA, "Instruction
// descriptor", "Matrix descriptor format in shared memory"), checked when it starts, computed when
// it lands.
#include "compiler/emulator/TensorMemory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace m3c::emulator {

static unsigned bits(uint64_t word, unsigned first, unsigned count) {
  return unsigned(word >> first & ((uint64_t(1) << count) - 1));
}

Cluster::TensorMemory::Shape
Cluster::TensorMemory::shapeOf(FibreThread &thread, const m3emu::TensorProduct &product) const {
  unsigned code = product.instruction;
  Shape shape{bits(code, 24, 5) * 16, bits(code, 17, 6) * 8, product.wide, product.pair};
  if (bits(code, 0, 4) || bits(code, 6, 1) || bits(code, 23, 1) || code >> 29)
    cluster.fail(thread, fmt::format("starts a product with an instruction descriptor of {:#x}: "
                                     "only dense ones are emulated",
                                     code));
  if (bits(code, 4, 2) != 1 || bits(code, 13, 2))
    cluster.fail(thread, fmt::format("starts a product with an instruction descriptor of {:#x}: "
                                     "only FP32 sums without a sign are emulated",
                                     code));
  unsigned least = product.pair ? 128 : 64, columnStep = product.pair ? 16 : 8;
  if ((shape.m != least && shape.m != 2 * least) || shape.n == 0 || shape.n > 256 ||
      shape.n % columnStep)
    cluster.fail(thread, fmt::format("starts a product of {} rows and {} columns{}: {} or {} rows "
                                     "and {} to 256 columns are possible",
                                     shape.m, shape.n, product.pair ? " of a pair" : "", least,
                                     2 * least, columnStep));
  if (product.pair && product.aInTensor && shape.m != 256)
    cluster.fail(thread, "starts a product of a pair with 64 rows in each tensor memory: only 128 "
                         "rows are emulated");
  return shape;
}

/// The byte of shared memory of each element, row by row. `contiguousRows`: rows, not k, lie next
/// to each other ("MN-major").
std::vector<uint64_t> Cluster::TensorMemory::sharedOperand(FibreThread &thread, uint64_t descriptor,
                                                           unsigned rows, const Shape &shape,
                                                           bool contiguousRows, const char *side) {
  uint64_t start = uint64_t(bits(descriptor, 0, 14)) * 16;
  uint64_t leading = uint64_t(bits(descriptor, 16, 14)) * 16;
  uint64_t stride = uint64_t(bits(descriptor, 32, 14)) * 16;
  unsigned mode = unsigned(descriptor >> 61), size = shape.wide ? 2 : 1;
  if (bits(descriptor, 46, 3) != 1 || bits(descriptor, 49, 12) || (mode & 1))
    cluster.fail(thread,
                 fmt::format("gives {:#x} as the descriptor of the {} operand: bits 46 to "
                             "48 are 1, those from 49 to 60 are 0, and the swizzle is 0, 2, "
                             "4 or 6",
                             descriptor, side));
  unsigned turns = mode == 0 ? 0 : mode == 2 ? 3 : mode == 4 ? 2 : 1; // bits that are turned over
  uint64_t width = mode == 0 ? 16 : uint64_t(16) << turns;
  std::vector<uint64_t> places;
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned k = 0; k < shape.k(); ++k) {
      uint64_t at;
      if (contiguousRows) {
        uint64_t byte = uint64_t(row) * size;
        at = start + byte % width + byte / width * (turns ? leading : stride) + k % 8 * width +
             k / 8 * (turns ? stride : leading);
      } else {
        uint64_t byte = uint64_t(k) * size;
        at = start + row % 8 * width + row / 8 * stride + byte % width + byte / width * leading;
      }
      at ^= (at >> 7 & ((1u << turns) - 1)) << 4;
      if (at + size > cluster.shape->sharedBytes)
        cluster.fail(thread, fmt::format("multiplies byte {} of {} bytes of shared memory ({} "
                                         "operand, row {}, k {})",
                                         at, cluster.shape->sharedBytes, side, row, k));
      places.push_back(at);
    }
  return places;
}

void Cluster::TensorMemory::useShared(FibreThread &thread, Operation &operation) {
  for (const std::vector<uint64_t> *places : {&operation.a, &operation.b})
    for (uint64_t at : *places)
      operation.chunks.push_back(at / 16 * 16);
  std::ranges::sort(operation.chunks);
  operation.chunks.erase(std::unique(operation.chunks.begin(), operation.chunks.end()),
                         operation.chunks.end());
  const Knowledge &fenced = thread.own ? *thread.ownFenced : thread.home->fenced;
  for (unsigned part = 0; part < operation.shape.items(); ++part) {
    if (cluster.hasEnded(rank + part))
      cluster.fail(thread, "multiplies shared memory of a work item that has ended");
    Shadow &shadow = cluster.items[rank + part].shadow;
    for (uint64_t chunk : operation.chunks)
      cluster.complain(thread, shadow.startRead(cluster.accessor(thread), fenced, chunk, 16));
  }
}

void Cluster::TensorMemory::useLeft(FibreThread &thread, const Operation &operation,
                                    unsigned part) {
  const Shape &shape = operation.shape;
  TensorMemory &memory = member(part);
  for (unsigned row = 0; row < shape.leftRows(); ++row)
    for (unsigned word = 0; word < 8; ++word) { // 32 bytes of each row
      unsigned lane = laneOfRow(shape, row), column = (operation.product.aWord & 0xffff) + word;
      memory.checkPlace(thread, lane, column, "multiplies");
      Cell &at = memory.cell(lane, column);
      if (!at.written)
        cluster.fail(thread, fmt::format("multiplies lane {} of column {} of tensor memory, which "
                                         "nothing has written",
                                         lane, column));
      memory.checkWriter(thread, lane, column, "multiplies", nullptr);
      at.readByProduct = operation.number;
    }
}

void Cluster::TensorMemory::useAccumulator(FibreThread &thread, const Operation &operation) {
  const Shape &shape = operation.shape;
  for (unsigned row = 0; row < shape.m; ++row)
    for (unsigned i = 0; i < shape.n; ++i) {
      Place place = placeOf(shape, row, i);
      TensorMemory &memory = member(place.part);
      unsigned lane = place.lane, column = (operation.product.d & 0xffff) + place.column;
      memory.checkPlace(thread, lane, column, "adds to");
      Cell &at = memory.cell(lane, column);
      if (operation.product.accumulate && !at.written)
        cluster.fail(thread, fmt::format("adds to lane {} of column {} of tensor memory, which "
                                         "nothing has written",
                                         lane, column));
      memory.checkWriter(thread, lane, column, "adds to", &shape);
      memory.checkReaders(thread, lane, column, "adds to");
      uint32_t value = at.value;
      at = {};
      at.value = value;
      at.writer = uint16_t(warps());
      at.written = operation.number;
    }
}

void Cluster::TensorMemory::multiply(FibreThread &thread, const m3emu::TensorProduct &product) {
  useGroup(thread, product.pair);
  if (product.pair && rank % 2)
    cluster.fail(thread, "starts a product of a pair, which is for the even one of the two to do");
  Operation operation{&thread, false};
  operation.product = product;
  operation.shape = shapeOf(thread, product);
  started.emplace_back(operation.shape, thread.home->index);
  operation.number = uint32_t(started.size());
  bool aRows = bits(product.instruction, 15, 1), bRows = bits(product.instruction, 16, 1);
  if (!product.aInTensor)
    operation.a = sharedOperand(thread, product.a, operation.shape.leftRows(), operation.shape,
                                aRows, "left");
  else if (aRows || product.aWord >> 16 || product.d >> 16)
    cluster.fail(thread, "names lanes of tensor memory or an order of its left operand, which it "
                         "cannot have");
  operation.b = sharedOperand(thread, product.b, operation.shape.rightRows(), operation.shape,
                              bRows, "right");
  useShared(thread, operation);
  for (unsigned part = 0; product.aInTensor && part < operation.shape.items(); ++part)
    useLeft(thread, operation, part);
  useAccumulator(thread, operation);
  start(std::move(operation));
}

//===- Arithmetic -----------------------------------------------------------------------------===//

unsigned Cluster::TensorMemory::element(const Operation &operation,
                                        const std::vector<uint64_t> &places, unsigned part,
                                        unsigned row, unsigned k) const {
  const unsigned char *at =
      sharedOf(*operation.thread, part) + places[row * operation.shape.k() + k];
  if (!operation.shape.wide)
    return *at;
  uint16_t code;
  std::memcpy(&code, at, 2);
  return code;
}

unsigned Cluster::TensorMemory::leftElement(const Operation &operation, unsigned row, unsigned k) {
  unsigned perWord = operation.shape.wide ? 2 : 4, width = 32 / perWord;
  unsigned column = (operation.product.aWord & 0xffff) + k / perWord;
  return cell(laneOfRow(operation.shape, row), column).value >> k % perWord * width &
         ((1u << width) - 1);
}

void Cluster::TensorMemory::compute(Operation &operation) {
  const Shape &shape = operation.shape;
  const unsigned k = shape.k();
  // Rows of an operand, those of the second work item behind those of the first.
  auto codes = [&](unsigned rowsOfItem, auto of) {
    std::vector<uint16_t> all(size_t(rowsOfItem) * shape.items() * k);
    for (unsigned row = 0; row < rowsOfItem * shape.items(); ++row)
      for (unsigned i = 0; i < k; ++i)
        all[row * k + i] = uint16_t(of(row / rowsOfItem, row % rowsOfItem, i));
    return all;
  };
  auto a = codes(shape.leftRows(), [&](unsigned part, unsigned row, unsigned i) {
    return operation.product.aInTensor ? member(part).leftElement(operation, row, i)
                                       : element(operation, operation.a, part, row, i);
  });
  auto b = codes(shape.rightRows(), [&](unsigned part, unsigned row, unsigned i) {
    return element(operation, operation.b, part, row, i);
  });
  for (unsigned row = 0; row < shape.m; ++row)
    for (unsigned column = 0; column < shape.n; ++column) {
      Place place = placeOf(shape, row, column);
      Cell &at = member(place.part).cell(place.lane, (operation.product.d & 0xffff) + place.column);
      float before = 0;
      if (operation.product.accumulate)
        std::memcpy(&before, &at.value, 4);
      float sum = operation.product.sum(&a[row * k], &b[column * k], before);
      std::memcpy(&at.value, &sum, 4);
    }
}

} // namespace m3c::emulator
