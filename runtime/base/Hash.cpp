#include "runtime/base/Hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace m3c {

struct Hasher128::State {
  XXH3_state_t xxh;
};

static Digest128 digest(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

std::string Digest128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest128 hash128(std::span<const std::byte> bytes) {
  return digest(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest128 hash128(std::string_view text) { return hash128(std::as_bytes(std::span(text))); }

Hasher128::Hasher128() : state(std::make_unique<State>()) { XXH3_128bits_reset(&state->xxh); }
Hasher128::~Hasher128() = default;

void Hasher128::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state->xxh, bytes.data(), bytes.size());
}

void Hasher128::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

Digest128 Hasher128::finish() const { return digest(XXH3_128bits_digest(&state->xxh)); }

} // namespace m3c
