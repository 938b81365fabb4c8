#include "runtime/weights/SyntheticSource.h"

#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/base/Hash.h"
#include "runtime/checkpoint/Dtype.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace m3c {

namespace {

/// Calls `store(i, hash)` for elements [0, count) from `index` on; the high half of the index
/// changes between chunks only.
template <typename Store>
void generate(uint64_t base, uint64_t index, uint64_t count, Store store) {
  for (uint64_t done = 0; done < count;) {
    uint32_t key = madeup::keyOf(base, index + done), first = uint32_t(index + done);
    uint64_t chunk = std::min(count - done, (uint64_t(1) << 32) - first);
    for (uint64_t i = 0; i < chunk; ++i)
      store(done + i, madeup::mix(key, first + uint32_t(i)));
    done += chunk;
  }
}

/// Elements of one tensor from `index` on: the loops of madeup::element, a rule each, so that they
/// vectorise.
void fill(const madeup::Values &values, uint64_t index, std::span<std::byte> to) {
  uint64_t count = to.size() / values.elementBytes();
  auto each = [&](auto *out, auto make) {
    generate(values.base, index, count, [&](uint64_t i, uint32_t h) {
      out[i] = std::remove_reference_t<decltype(*out)>(make(h));
    });
  };
  uint32_t low = values.low, range = values.range;
  float scale = values.scale;
  switch (values.rule) {
  case madeup::Codes:
    if (values.withSign)
      each(reinterpret_cast<uint8_t *>(to.data()),
           [=](uint32_t h) { return madeup::signedCode(h, low, range); });
    else
      each(reinterpret_cast<uint8_t *>(to.data()),
           [=](uint32_t h) { return madeup::code(h, low, range); });
    return;
  case madeup::NormalBf16:
    return each(reinterpret_cast<uint16_t *>(to.data()),
                [=](uint32_t h) { return madeup::roundedToBf16(madeup::normal(h) * scale); });
  case madeup::NormalF32:
    return each(reinterpret_cast<float *>(to.data()),
                [=](uint32_t h) { return madeup::normal(h) * scale; });
  default:
    return each(reinterpret_cast<float *>(to.data()), [=](uint32_t) { return scale; });
  }
}

// Root mean squares of the code distributions below, for the scales that make up for them.
constexpr float e4m3Rms = 1.0f;     // codes 0x28 … 0x3f: 0.25 to 1.875
constexpr float e2m1Rms = 2.93f;    // uniform codes
constexpr float fp4ScaleRms = 1.1f; // codes 0x30 … 0x3f: 0.5 to 1.875

std::string_view lastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }
std::string_view stem(std::string_view name) { return name.substr(0, name.rfind('.')); }

bool holds(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

} // namespace

SyntheticSource::SyntheticSource(uint64_t seed, const plan::Tables &tables) : seed(seed) {
  for (const plan::WeightBuffer *buffer : plan::list(tables.weights()))
    for (const plan::WeightPiece *piece : plan::list(buffer->pieces())) {
      std::string_view name = piece->tensor()->string_view(), last = lastPart(name);
      if ((last != "weight" && last != "weight_packed") || plan::list(piece->shape()).size() < 2)
        continue;
      uint64_t columns = uint64_t(piece->shape()->Get(piece->shape()->size() - 1));
      rowLengths[std::string(stem(name))] =
          piece->dtype()->string_view() == "U8" ? columns * 2 : columns;
    }
}

void SyntheticSource::check(const plan::WeightPiece &piece) const {
  switch (*parseDtype(piece.dtype()->str())) {
  case Dtype::U8:
  case Dtype::F8E4M3:
  case Dtype::F8E8M0:
  case Dtype::Bf16:
  case Dtype::F32:
    return;
  default:
    throw Error(fmt::format("no synthetic values for {}", piece.tensor()->str()),
                "synthetic weights",
                fmt::format("dtype {}; U8, F8_E4M3, F8_E8M0, BF16 and F32 are known",
                            piece.dtype()->str()));
  }
}

uint64_t SyntheticSource::rowLength(const plan::WeightPiece &piece) const {
  auto found = rowLengths.find(stem(piece.tensor()->string_view()));
  return found == rowLengths.end() ? 1 : std::max<uint64_t>(1, found->second);
}

madeup::Values SyntheticSource::valuesOf(const plan::WeightPiece &piece) const {
  std::string_view name = piece.tensor()->string_view(), last = lastPart(name);
  Dtype dtype = *parseDtype(piece.dtype()->str());
  uint64_t base = hash128(fmt::format("{}\n{}", seed, name)).low;
  bool isScale = holds(last, "scale");
  float deviation = 1 / std::sqrt(float(rowLength(piece)));

  if (isScale && dtype == Dtype::F32) {
    // One value: what brings codes and block scales to the deviation; "global" is a divisor.
    float value = deviation / (e2m1Rms * fp4ScaleRms);
    return {madeup::Constant, 0, 0, 0, holds(last, "global") ? 1 / value : value, base};
  }
  if (isScale && dtype == Dtype::F8E4M3)
    return {madeup::Codes, 0x30, 16, 0, 0, base};
  if (isScale) { // E8M0: within a factor of two of the deviation, either way
    int exponent = int(std::lround(std::log2(deviation / e4m3Rms)));
    return {madeup::Codes, uint32_t(std::clamp(127 + exponent - 1, 1, 250)), 3, 0, 0, base};
  }
  if (dtype == Dtype::U8)
    return {madeup::Codes, 0, 256, 0, 0, base};
  if (dtype == Dtype::F8E4M3)
    return {madeup::Codes, 0x28, 24, 1, 0, base};
  float scale = holds(name, "norm")                    ? 0.05f
                : plan::list(piece.shape()).size() < 2 ? 0.01f // router bias
                : holds(name, "embed")                 ? 0.5f
                                                       : deviation;
  return {dtype == Dtype::Bf16 ? madeup::NormalBf16 : madeup::NormalF32, 0, 0, 0, scale, base};
}

void SyntheticSource::read(const plan::WeightPiece &piece, uint64_t offset,
                           std::span<std::byte> to) const {
  madeup::Values values = valuesOf(piece);
  fill(values, offset / values.elementBytes(), to);
}

} // namespace m3c
