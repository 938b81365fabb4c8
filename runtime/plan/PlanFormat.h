// Bytes of the plan container; docs/plan-format.md describes the same for people. Integers are
// little endian. Layout: header, section table, sections by ascending offset with zero padding
// between.
#pragma once

#include <array>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

namespace m3c::plan {

inline constexpr std::array<char, 8> planMagic = {'M', '3', 'C', 'P', 'L', 'A', 'N', '\n'};

/// Version that the writer gives a plan, and the oldest reader version that may read it.
inline constexpr uint32_t formatVersion = 1;
inline constexpr uint32_t minimumReader = 1;
/// Oldest format that this reader still reads.
inline constexpr uint32_t oldestReadable = 1;

struct Header {
  std::array<char, 8> magic;
  uint32_t version;       ///< format of the file
  uint32_t minimumReader; ///< a reader below this version must refuse
  uint64_t length;        ///< of the file, bytes
  uint32_t sectionCount;  ///< entries of the table, which follows the header
  uint32_t zero;
  uint8_t
      checksum[16]; ///< XXH3-128 (high half first, big endian) of header and table, this field 0
  uint8_t reserved[16]; ///< zero
};
static_assert(sizeof(Header) == 64);

enum class SectionKind : uint32_t {
  Tables = 1,   ///< FlatBuffers of plan.fbs; always section 0
  Manifest = 2, ///< JSON; always section 1
  Code = 3,     ///< one code object
  Source = 4,   ///< text of one kernel
  Extra = 5,    ///< named by Tables.extras
};

struct SectionEntry {
  uint32_t kind;
  uint32_t zero;
  uint64_t offset, size; ///< bytes from the start of the file
  uint64_t alignment;    ///< of `offset`; a power of two
  uint8_t digest[16];    ///< XXH3-128 of the section's bytes, high half first, big endian
};
static_assert(sizeof(SectionEntry) == 48);

inline constexpr uint64_t tablesAlignment = 64;
inline constexpr uint64_t blobAlignment = 4096;
/// Bounds of what a reader accepts.
inline constexpr uint32_t maxSections = 1u << 20;

/// Elements of BatchArray::Counters.
inline constexpr uint32_t counters = 4096;

/// A name of plan.fbs as users write it: lower case.
inline std::string spelled(std::string_view name) {
  std::string text(name);
  for (char &c : text)
    c = char(std::tolower((unsigned char)c));
  return text;
}

} // namespace m3c::plan
