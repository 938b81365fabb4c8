// Global memory of an emulated device: buffers in one region of addresses, with room between them
// that belongs to nobody.
#pragma once

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
  /// What is wrong with an access; empty: nothing.
  std::string fault(uint64_t address, uint64_t bytes, bool writes) const;

private:
  struct Buffer {
    uint64_t bytes;
    std::string name;
  };
  /// Where `pages` pages are free: the first place after `next` that has room, so that what was
  /// released is not given out again at once.
  uint64_t place(uint64_t wanted);

  std::byte *base = nullptr;
  unsigned char *states = nullptr;
  std::map<uint64_t, Buffer> buffers; ///< by address
  uint64_t next = 0;
  mutable std::mutex mutex;
};

} // namespace m3c::emulator
