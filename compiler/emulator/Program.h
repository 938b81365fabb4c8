// A kernel's text, compiled for this machine and loaded.
#pragma once

#include "passes/targets/common/Emulated.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace m3c {
class ContentCache;
}

namespace m3c::emulator {

struct KernelSource {
  std::string kernel, text;
  std::map<std::string, std::string> headers;
  unsigned threads = 1; ///< of a work item
  unsigned cluster = 1; ///< work items along x that run together
  /// Of a thread when a work item begins; 0: the text does not say, or no warp can change them.
  unsigned registers = 0;
  uint64_t sharedBytes = 0;
  unsigned parameters = 0;
  /// It may begin before the launch before it has ended, or lets the one after it do so; what the
  /// text says.
  bool overlaps = false;
};

/// Where in a kernel's text an address of its code is.
struct Place {
  unsigned line = 0; ///< 0: not known
  std::string text;  ///< that line, without its comment
  std::string op;    ///< what it was printed for: "tile.load, line 23"
  std::string role;  ///< whose block it stands in; empty: none
};

class Program {
public:
  Program(KernelSource source, const EmulatedTarget &target);
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  const KernelSource &source() const { return given; }
  using Entry = void (*)(const unsigned long *values);
  Entry entry() const { return function; } ///< null until `build`

  /// Compiles, or takes the object from the cache; true: compiled. Throws Error with the
  /// compiler's message.
  bool build(ContentCache &cache);

  Place placeOf(const void *address) const;

private:
  std::vector<std::byte> compile(ContentCache &cache, bool &compiled) const;
  void load();
  unsigned lineOf(uint64_t offset) const;
  std::string lineText(unsigned line) const;
  std::string roleAt(unsigned line) const;

  KernelSource given;
  const EmulatedTarget &target;
  std::vector<std::byte> object;
  int descriptor = -1;
  void *handle = nullptr;
  Entry function = nullptr;
  uint64_t loadedAt = 0;
};

} // namespace m3c::emulator
