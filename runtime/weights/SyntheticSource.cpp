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

/// 32 well-mixed bits of (key, index): the finaliser of MurmurHash3 (public domain, A. Appleby)
/// over a Weyl sequence. Plain 32-bit arithmetic, so loops over it vectorise.
inline uint32_t mix(uint32_t key, uint32_t index) {
  uint32_t h = key + index * 0x9E3779B1u;
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

/// Near a standard normal: the sum of four bytes, centred, over its standard deviation
/// sqrt(4·(256² − 1)/12) = 147.8.
inline float normal(uint32_t h) {
  int32_t sum = int32_t((h & 255) + (h >> 8 & 255) + (h >> 16 & 255) + (h >> 24));
  return float(sum - 510) * (1 / 147.8f);
}

/// The first index and the key of a chunk: beyond 2^32 elements the high half goes into the key.
struct Counter {
  uint32_t key, first;
  Counter(uint64_t base, uint64_t index)
      : key(uint32_t(base ^ base >> 32) ^ mix(0x5bd1e995u, uint32_t(index >> 32))),
        first(uint32_t(index)) {}
};

/// Calls `store(i, hash)` for elements [0, count) from `index` on; the high half of the index
/// changes between chunks only.
template <typename Store>
void generate(uint64_t base, uint64_t index, uint64_t count, Store store) {
  for (uint64_t done = 0; done < count;) {
    Counter counter(base, index + done);
    uint64_t chunk = std::min(count - done, (uint64_t(1) << 32) - counter.first);
    for (uint64_t i = 0; i < chunk; ++i)
      store(done + i, mix(counter.key, counter.first + uint32_t(i)));
    done += chunk;
  }
}

void normals(uint64_t base, uint64_t index, float scale, Dtype dtype, std::span<std::byte> to) {
  if (dtype == Dtype::Bf16) {
    auto *out = reinterpret_cast<uint16_t *>(to.data());
    generate(base, index, to.size() / 2, [&](uint64_t i, uint32_t h) {
      uint32_t bits = std::bit_cast<uint32_t>(normal(h) * scale);
      out[i] = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16); // nearest even
    });
  } else {
    auto *out = reinterpret_cast<float *>(to.data());
    generate(base, index, to.size() / 4,
             [&](uint64_t i, uint32_t h) { out[i] = normal(h) * scale; });
  }
}

/// Bytes low + (0 … range − 1), with a random sign bit where `withSign`.
void codes(uint64_t base, uint64_t index, uint32_t low, uint32_t range, bool withSign,
           std::span<std::byte> to) {
  generate(base, index, to.size(), [&](uint64_t i, uint32_t h) {
    uint32_t code = low + ((h & 0xffff) * range >> 16);
    to[i] = std::byte(withSign ? code | (h >> 24 & 0x80) : code);
  });
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

void SyntheticSource::read(const plan::WeightPiece &piece, uint64_t offset,
                           std::span<std::byte> to) const {
  std::string_view name = piece.tensor()->string_view(), last = lastPart(name);
  Dtype dtype = *parseDtype(piece.dtype()->str());
  Digest128 digest = hash128(fmt::format("{}\n{}", seed, name));
  uint64_t base = digest.low, index = offset * 8 / dtypeBits(dtype);
  bool isScale = holds(last, "scale");
  float deviation = 1 / std::sqrt(float(rowLength(piece)));

  if (isScale && dtype == Dtype::F32) {
    // One value: what brings codes and block scales to the deviation; "global" is a divisor.
    float value = deviation / (e2m1Rms * fp4ScaleRms);
    if (holds(last, "global"))
      value = 1 / value;
    for (size_t i = 0; i + 4 <= to.size(); i += 4)
      std::memcpy(to.data() + i, &value, 4);
    return;
  }
  if (isScale && dtype == Dtype::F8E4M3)
    return codes(base, index, 0x30, 16, false, to);
  if (isScale) { // E8M0: within a factor of two of the deviation, either way
    int exponent = int(std::lround(std::log2(deviation / e4m3Rms)));
    return codes(base, index, uint32_t(std::clamp(127 + exponent - 1, 1, 250)), 3, false, to);
  }
  if (dtype == Dtype::U8)
    return codes(base, index, 0, 256, false, to);
  if (dtype == Dtype::F8E4M3)
    return codes(base, index, 0x28, 24, true, to);
  float scale = holds(name, "norm")                    ? 0.05f
                : plan::list(piece.shape()).size() < 2 ? 0.01f // router bias
                : holds(name, "embed")                 ? 0.5f
                                                       : deviation;
  normals(base, index, scale, dtype, to);
}

} // namespace m3c
