// Targets whose texts the emulator can run: header texts that stand for those of the device.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace m3c {

struct EmulatedTarget {
  std::string_view name;
  unsigned lanes;           ///< of a warp
  unsigned tensorColumns;   ///< of 32 bits in tensor memory; 0: it has none
  unsigned registers;       ///< of a multiprocessor, where warps can change theirs; else 0
  std::string_view prelude; ///< the header that a text sees before its first line
  const std::map<std::string, std::string> &(*headers)(); ///< by name; the first one found counts
};

/// Null when there is none of that name.
const EmulatedTarget *findEmulatedTarget(std::string_view name);
std::vector<std::string_view> emulatedTargetNames();

} // namespace m3c
