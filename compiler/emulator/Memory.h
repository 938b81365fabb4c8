// Global memory of an emulated device: buffers in one region of addresses, with room between them
// that belongs to nobody.
#pragma once

#include "passes/targets/common/emulated/emulator.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace m3c::emulator {

class Memory {
public:
  Memory();
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  /// Zero bytes, at a multiple of a page. Throws Error when the region is full.
  std::byte *allocate(uint64_t bytes, std::string name);
  void release(std::byte *address);

  uint64_t begin() const { return reinterpret_cast<uint64_t>(base); }
  uint64_t pages() const;
  /// m3emu::wholePage where a buffer has every byte of a page.
  const unsigned char *pageState() const { return states; }
  /// The same of lines that some launch has written to (m3emu::lineBytes).
  const unsigned char *written() const { return writtenStates; }
  /// As both: no page is whole, and no line.
  const unsigned char *noPage() const { return noStates; }
  /// What is wrong with an access; empty: nothing. `early`: by a thread that has yet to wait for
  /// the launch before. It may write nothing, and read only lines that no launch has written to,
  /// since their buffer was made: weights, for which nobody has to wait. Notes what is written.
  std::string fault(uint64_t address, uint64_t bytes, bool writes, bool early) const;

private:
  struct Buffer {
    uint64_t bytes;
    std::string name;
  };
  static uint64_t lines();
  /// Calls `body` for each line that has some of the bytes.
  template <class Body> void eachLine(uint64_t address, uint64_t bytes, Body body) const {
    if (!bytes)
      return;
    uint64_t last = (address + bytes - 1 - begin()) / m3emu::lineBytes;
    for (uint64_t line = (address - begin()) / m3emu::lineBytes; line <= last; ++line)
      body(line);
  }
  void forgetWrites(uint64_t address, uint64_t bytes);
  /// Of accesses within a buffer.
  void noteWrite(uint64_t address, uint64_t bytes) const;
  std::string earlyFault(uint64_t address, uint64_t bytes, bool writes, const Buffer &buffer,
                         uint64_t offset) const;
  /// Where `pages` pages are free: the first place after `next` that has room, so that what was
  /// released is not given out again at once.
  uint64_t place(uint64_t wanted);

  std::byte *base = nullptr;
  unsigned char *states = nullptr, *writtenStates = nullptr, *noStates = nullptr;
  std::map<uint64_t, Buffer> buffers; ///< by address
  uint64_t next = 0;
  mutable std::mutex mutex;
};

} // namespace m3c::emulator
