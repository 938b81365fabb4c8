// How a code object brings memory near that it reads once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace m3c::hal {

/// Changes the prefetches that section `m3_streams` of the shared object `code` lists from
/// PREFETCHNTA, past the second-level cache, to PREFETCHT0, through it (AMD64 manual volume 3,
/// PREFETCHlevel; the hint is the field `reg` of ModRM). An entry is the distance of the
/// instruction from the entry, 32 bits. Returns how many there were. Throws Error, naming `name`,
/// when the list leaves the object or an entry is of no such instruction.
uint64_t streamThroughCaches(std::span<std::byte> code, std::string_view name);

} // namespace m3c::hal
