#include "runtime/base/ContentCache.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/Log.h"
#include "runtime/base/MappedFile.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <link.h>

#include <fmt/format.h>

namespace m3c {

namespace {

// Head of an entry; the payload follows.
struct EntryHead {
  char magic[8];
  uint64_t length;          // of the payload, bytes
  uint64_t keyHigh, keyLow; // the key it was stored under
  uint64_t high, low;       // digest of the payload
};
constexpr char entryMagic[8] = {'M', '3', 'C', 'A', 'C', 'H', 'E', '1'};

EntryHead headOf(const Digest128 &key, std::span<const std::byte> payload) {
  EntryHead head = {};
  std::memcpy(head.magic, entryMagic, sizeof entryMagic);
  Digest128 digest = hash128(payload);
  head.length = payload.size();
  head.keyHigh = key.high;
  head.keyLow = key.low;
  head.high = digest.high;
  head.low = digest.low;
  return head;
}

// A process that was killed leaves its unpublished file; an hour later nobody writes it any more.
void removeAbandoned(const std::filesystem::path &folder, const std::string &suffix) {
  std::error_code ignored;
  auto limit = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto &file : std::filesystem::directory_iterator(folder, ignored))
    if (file.path().extension() != suffix && file.last_write_time(ignored) < limit)
      std::filesystem::remove(file.path(), ignored);
}

constexpr const char *entrySuffix = ".entry";

} // namespace

CacheKey::CacheKey(std::string kind) : kindName(std::move(kind)) { add("kind", kindName); }

CacheKey &CacheKey::add(std::string_view label, std::string_view value) {
  fields += fmt::format("{}:{}={}:{}", label.size(), label, value.size(), value);
  return *this;
}

ContentCache::ContentCache(std::filesystem::path folder) : root(std::move(folder)) {}

std::filesystem::path ContentCache::defaultFolder() {
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::filesystem::path(cache) / "m3c";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".cache" / "m3c";
  return {};
}

std::filesystem::path ContentCache::pathOf(const CacheKey &key) const {
  std::string hex = key.digest().hex();
  return root / key.kind() / hex.substr(0, 2) / (hex + entrySuffix);
}

std::optional<std::vector<std::byte>> ContentCache::load(const CacheKey &key) {
  std::error_code ignored;
  if (root.empty() || !std::filesystem::is_regular_file(pathOf(key), ignored))
    return std::nullopt;
  try {
    MappedFile file = MappedFile::open(pathOf(key));
    std::span<const std::byte> bytes = file.bytes();
    if (bytes.size() >= sizeof(EntryHead)) {
      std::span<const std::byte> payload = bytes.subspan(sizeof(EntryHead));
      EntryHead expected = headOf(key.digest(), payload);
      if (std::memcmp(bytes.data(), &expected, sizeof expected) == 0)
        return std::vector<std::byte>(payload.begin(), payload.end());
    }
    log::warning("damaged cache entry {} is rebuilt", pathOf(key).string());
    std::filesystem::remove(pathOf(key), ignored);
  } catch (const Error &) {
    // Removed or unreadable in between: the same as not there.
  }
  return std::nullopt;
}

void ContentCache::store(const CacheKey &key, std::span<const std::byte> bytes) {
  if (root.empty() || !writable)
    return;
  std::filesystem::path path = pathOf(key);
  try {
    std::filesystem::create_directories(path.parent_path());
    removeAbandoned(path.parent_path(), entrySuffix);
    EntryHead head = headOf(key.digest(), bytes);
    FileWriter file(path);
    file.write(std::as_bytes(std::span(&head, 1)));
    file.write(bytes);
    file.publish();
  } catch (const std::exception &error) {
    if (writable.exchange(false))
      log::warning("the cache {} cannot be written and is not used further: {}", root.string(),
                   error.what());
  }
}

std::string programIdentity() {
  static const std::string identity = [] {
    Hasher128 hasher;
    hasher.add(MappedFile::open("/proc/self/exe").bytes());
    // Libraries by their build ids: hashing them would cost more than most compilations save.
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *data) {
          auto &hasher = *static_cast<Hasher128 *>(data);
          // The first has no name: the program itself. The kernel's own object is none of ours.
          std::string_view name = info->dlpi_name;
          if (name.empty() || name.starts_with("linux-vdso"))
            return 0;
          for (int i = 0; i < info->dlpi_phnum; ++i)
            if (info->dlpi_phdr[i].p_type == PT_NOTE)
              hasher.add(std::string_view(
                  reinterpret_cast<const char *>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                  info->dlpi_phdr[i].p_memsz));
          return 0;
        },
        &hasher);
    return hasher.finish().hex();
  }();
  return identity;
}

} // namespace m3c
