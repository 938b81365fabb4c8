#include "compiler/emulator/groups/GroupProducts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace m3c::emulator {

/// K of an instruction, elements of 16 bits.
static constexpr unsigned productK = 16;
/// What registers show while a product has them: a NaN.
static constexpr uint32_t nobodys = 0x7fffdead;

Cluster::GroupProducts::GroupProducts(Cluster &cluster)
    : cluster(cluster), warps(cluster.warps.size() / cluster.shape->cluster) {}

void Cluster::GroupProducts::fence(FibreThread &thread) { of(thread).fenced = true; }

static unsigned bits(uint64_t word, unsigned first, unsigned count) {
  return unsigned(word >> first & ((uint64_t(1) << count) - 1));
}

/// The byte of shared memory of each element of the right operand, row by row (PTX ISA,
/// "Matrix-descriptor"): k lies side by side, 128 bytes of a row, runs of 16 bytes turned over by
/// the number of the 128 bytes.
std::vector<uint64_t> Cluster::GroupProducts::places(FibreThread &thread,
                                                     const m3emu::GroupProduct &product) {
  uint64_t start = uint64_t(bits(product.b, 0, 14)) * 16;
  uint64_t stride = uint64_t(bits(product.b, 32, 14)) * 16;
  if (bits(product.b, 62, 2) != 1 || bits(product.b, 14, 2) || bits(product.b, 30, 2) ||
      bits(product.b, 46, 16))
    cluster.fail(thread, fmt::format("gives {:#x} as the descriptor of its right operand: only the "
                                     "128-byte swizzle (1 in bits 62 and 63) with no base offset "
                                     "is emulated",
                                     product.b));
  std::vector<uint64_t> found;
  for (unsigned row = 0; row < product.n; ++row)
    for (unsigned k = 0; k < productK; ++k) {
      uint64_t at = start + row % 8 * 128 + row / 8 * stride + k * 2;
      at ^= (at >> 7 & 7) << 4;
      if (at + 2 > cluster.shape->sharedBytes)
        cluster.fail(thread, fmt::format("multiplies byte {} of {} bytes of shared memory (row {}, "
                                         "k {} of the right operand)",
                                         at, cluster.shape->sharedBytes, row, k));
      found.push_back(at);
    }
  return found;
}

/// The sums that the product adds to: those in the registers, or those of products under way, whose
/// registers must be as they were left.
void Cluster::GroupProducts::takeSums(FibreThread &thread, OfWarp &warp,
                                      const m3emu::GroupProduct &product) {
  const unsigned count = product.n / 2, lanes = cluster.shape->lanes;
  if (warp.sums.empty()) {
    warp.late = cluster.shape->landing == Landing::Late ||
                (cluster.shape->landing == Landing::Random && cluster.random() % 2);
    for (unsigned lane = 0; lane < lanes; ++lane)
      warp.sums.insert(warp.sums.end(), product.sums[lane], product.sums[lane] + count);
    return;
  }
  if (warp.sums.size() != size_t(count) * lanes)
    cluster.fail(thread, "adds to sums of another shape than the product under way has");
  for (unsigned lane = 0; lane < lanes; ++lane)
    for (unsigned i = 0; i < count; ++i) {
      uint32_t shown = std::bit_cast<uint32_t>(product.sums[lane][i]);
      uint32_t left = warp.late ? nobodys : std::bit_cast<uint32_t>(warp.sums[lane * count + i]);
      if (shown != left)
        cluster.fail(thread, "adds to sums that were changed while a product had them");
    }
}

void Cluster::GroupProducts::compute(FibreThread &thread, OfWarp &warp,
                                     const m3emu::GroupProduct &product,
                                     const std::vector<uint64_t> &at) {
  const unsigned count = product.n / 2;
  unsigned short a[16][productK];
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned half = 0; half < 2; ++half)
        a[lane / 4 + i % 2 * 8][i / 2 * 8 + lane % 4 * 2 + half] =
            (unsigned short)(product.a[lane][i] >> 16 * half);
  std::vector<unsigned short> b(at.size());
  for (size_t i = 0; i < at.size(); ++i)
    std::memcpy(&b[i], thread.shared + at[i], 2);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < count; ++i) {
      unsigned row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      float &sum = warp.sums[lane * count + i];
      sum = product.sum(a[row], &b[column * productK], sum);
      product.sums[lane][i] = warp.late ? std::bit_cast<float>(nobodys) : sum;
    }
}

void Cluster::GroupProducts::multiply(FibreThread &thread, const m3emu::GroupProduct &product) {
  OfWarp &warp = of(thread);
  if (thread.warp / together * together + together > warps.size())
    cluster.fail(thread, fmt::format("multiplies in a group of {} warps, {} are needed",
                                     warps.size() % together, together));
  if (!warp.fenced)
    cluster.fail(thread, "multiplies registers with no wgmma.fence since they were last its own");
  std::vector<uint64_t> at = places(thread, product);
  takeSums(thread, warp, product);
  Chunks chunks;
  for (uint64_t byte : at)
    chunks.push_back(byte / 16 * 16);
  std::ranges::sort(chunks);
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  const Knowledge &fenced = thread.own ? *thread.ownFenced : thread.home->fenced;
  for (uint64_t chunk : chunks)
    cluster.complain(
        thread, cluster.shadowOf(thread).startRead(cluster.accessor(thread), fenced, chunk, 16));
  warp.open.insert(warp.open.end(), chunks.begin(), chunks.end());
  compute(thread, warp, product, at);
  ++warp.started;
  warp.digest = warp.digest * 0x9e3779b97f4a7c15 + product.b + product.n;
}

void Cluster::GroupProducts::commit(FibreThread &thread) {
  OfWarp &warp = of(thread);
  warp.groups.push_back(std::move(warp.open));
  warp.open.clear();
}

void Cluster::GroupProducts::wait(FibreThread &thread, unsigned most, float *const *sums,
                                  unsigned count) {
  OfWarp &warp = of(thread);
  warp.fenced = false;
  if (!warp.open.empty())
    cluster.fail(thread, "waits for products that it has not committed");
  // What overwrites their operands from here on has to know of this warp.
  for (Shadow &shadow = cluster.shadowOf(thread); warp.groups.size() > most;
       warp.groups.pop_front())
    for (uint64_t chunk : warp.groups.front()) {
      shadow.endRead(chunk, 16);
      cluster.complain(thread, shadow.read(cluster.accessor(thread), chunk, 16));
    }
  if (most || warp.sums.empty())
    return;
  if (warp.sums.size() != size_t(count) * cluster.shape->lanes)
    cluster.fail(thread, "waits for sums of another shape than the product under way has");
  for (unsigned lane = 0; lane < cluster.shape->lanes; ++lane)
    std::copy_n(warp.sums.begin() + long(lane * count), count, sums[lane]);
  warp.sums.clear();
}

void Cluster::GroupProducts::end(FibreThread &thread) {
  OfWarp &own = of(thread);
  own.ended = true;
  if (!own.sums.empty())
    cluster.fail(thread, "ends while a product that it has started has its registers");
  unsigned begin = thread.warp / together * together;
  for (unsigned i = begin; i < std::min<size_t>(begin + together, warps.size()); ++i)
    if (warps[i].ended && (warps[i].started != own.started || warps[i].digest != own.digest))
      cluster.fail(thread, fmt::format("ends after {} products, warp {} of its group after {}, or "
                                       "with other right operands: the {} warps of a group start "
                                       "them together",
                                       own.started, i, warps[i].started, together));
}

} // namespace m3c::emulator
