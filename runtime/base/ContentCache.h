// A content-addressed store of finished results: kernels and whole plans. A key is everything that
// the result depends on; an entry is published by rename and checked when read, so racing compiles,
// a full disk or a killed process cost a rebuild at most.
#pragma once

#include "runtime/base/Hash.h"

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace m3c {

/// Collects what a result depends on, in a fixed order. Paths never belong in a key.
class CacheKey {
public:
  /// `kind` names the folder of the entries: "kernel", "plan".
  explicit CacheKey(std::string kind);
  CacheKey &add(std::string_view label, std::string_view value);

  const std::string &kind() const { return kindName; }
  Digest128 digest() const { return hash128(fields); }

private:
  std::string kindName;
  std::string fields; // each with its lengths, which keep neighbours apart
};

class ContentCache {
public:
  /// `folder` is made when the first entry is stored. An empty path: no cache, every load misses.
  explicit ContentCache(std::filesystem::path folder);

  /// $XDG_CACHE_HOME/m3c, else $HOME/.cache/m3c, else empty.
  static std::filesystem::path defaultFolder();

  /// The entry's bytes; nothing when there is none. A damaged entry is removed and counts as none.
  std::optional<std::vector<std::byte>> load(const CacheKey &key);
  /// Never throws: a cache that cannot be written is warned of once and then left alone.
  void store(const CacheKey &key, std::span<const std::byte> bytes);

  const std::filesystem::path &folder() const { return root; }

private:
  std::filesystem::path pathOf(const CacheKey &key) const;

  std::filesystem::path root;
  std::atomic<bool> writable = true;
};

/// Digest of the running program's own bytes and of the shared libraries it is built on, so that
/// another build of m3c or another LLVM never answers with old results.
std::string programIdentity();

} // namespace m3c
