// XXH3-128 digests: of a checkpoint's config and headers, of plan sections, of generated sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace m3c {

struct Digest128 {
  uint64_t high = 0, low = 0;
  /// 32 lower-case hexadecimal digits, the high half first (as `xxhsum -H2` prints it).
  std::string hex() const;
  bool operator==(const Digest128 &) const = default;
};

Digest128 hash128(std::span<const std::byte> bytes);
Digest128 hash128(std::string_view text);

/// The same digest from pieces.
class Hasher128 {
public:
  Hasher128();
  ~Hasher128();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  Digest128 finish() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace m3c
