// Digests as a plan file stores them.
#pragma once

#include "runtime/base/Hash.h"
#include "runtime/plan/PlanFormat.h"

#include <span>

namespace m3c::plan {

/// High half first, each half big endian.
inline void storeDigest(uint8_t (&to)[16], const Digest128 &digest) {
  for (int i = 0; i < 8; ++i) {
    to[i] = uint8_t(digest.high >> (56 - 8 * i));
    to[8 + i] = uint8_t(digest.low >> (56 - 8 * i));
  }
}

inline Digest128 loadDigest(const uint8_t (&from)[16]) {
  Digest128 digest;
  for (int i = 0; i < 8; ++i) {
    digest.high = digest.high << 8 | from[i];
    digest.low = digest.low << 8 | from[8 + i];
  }
  return digest;
}

/// Digest of the header with its checksum field zero, followed by the section table.
inline Digest128 headerChecksum(Header header, std::span<const SectionEntry> entries) {
  for (uint8_t &byte : header.checksum)
    byte = 0;
  Hasher128 hasher;
  hasher.add(std::as_bytes(std::span(&header, 1)));
  hasher.add(std::as_bytes(entries));
  return hasher.finish();
}

} // namespace m3c::plan
