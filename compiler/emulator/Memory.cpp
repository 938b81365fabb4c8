#include "compiler/emulator/Memory.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace m3c::emulator {

namespace {

constexpr uint64_t regionBytes = uint64_t(1) << 40; // of addresses; memory comes with use
constexpr uint64_t gap = 1 << 20;                   // bytes between buffers, at least

void *reserve(uint64_t bytes, int protection) {
  void *area = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED)
    throw Error("no addresses for the memory of an emulated device", "emulator",
                fmt::format("{} bytes: {}", bytes, std::strerror(errno)));
  return area;
}

uint64_t roundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

} // namespace

Memory::Memory() {
  base = static_cast<std::byte *>(reserve(regionBytes, PROT_NONE));
  states = static_cast<unsigned char *>(reserve(pages(), PROT_READ | PROT_WRITE));
  for (unsigned char **array : {&writtenStates, &noStates})
    *array = static_cast<unsigned char *>(reserve(lines(), PROT_READ | PROT_WRITE));
}

Memory::~Memory() {
  munmap(base, regionBytes);
  munmap(states, pages());
  for (unsigned char *array : {writtenStates, noStates})
    munmap(array, lines());
}

uint64_t Memory::pages() const { return regionBytes / m3emu::pageBytes; }

uint64_t Memory::lines() { return regionBytes / m3emu::lineBytes; }

/// Whole pages are given back to the system: most lines of a large buffer are never written to.
void Memory::forgetWrites(uint64_t address, uint64_t bytes) {
  unsigned char *from = writtenStates + (address - begin()) / m3emu::lineBytes;
  unsigned char *to = from + bytes / m3emu::lineBytes;
  auto aligned = [](unsigned char *at, uint64_t up) {
    return reinterpret_cast<unsigned char *>(roundUp(reinterpret_cast<uint64_t>(at) - up, 4096));
  };
  unsigned char *first = aligned(from, 0), *last = aligned(to, 4095);
  if (first >= last || madvise(first, size_t(last - first), MADV_DONTNEED) != 0)
    first = last = to;
  std::fill(from, first, 0);
  std::fill(last, to, 0);
}

uint64_t Memory::place(uint64_t wanted) {
  for (int round = 0; round < 2; ++round) {
    uint64_t at = round ? begin() + gap : std::max(next, begin() + gap);
    for (const auto &[address, buffer] : buffers) {
      uint64_t end = roundUp(address + buffer.bytes, m3emu::pageBytes) + gap;
      if (end <= at)
        continue;
      if (at + wanted + gap <= address)
        break;
      at = end;
    }
    if (at + wanted + gap <= begin() + regionBytes)
      return at;
  }
  return 0;
}

std::byte *Memory::allocate(uint64_t bytes, std::string name) {
  std::lock_guard lock(mutex);
  uint64_t wanted = roundUp(std::max<uint64_t>(bytes, 1), m3emu::pageBytes);
  uint64_t address = wanted < regionBytes ? place(wanted) : 0;
  auto *memory = reinterpret_cast<std::byte *>(address);
  if (!address || mprotect(memory, wanted, PROT_READ | PROT_WRITE) != 0)
    throw Error(fmt::format("no memory for {}", name), "emulator",
                fmt::format("{} bytes are asked for", bytes));
  std::memset(states + (address - begin()) / m3emu::pageBytes, m3emu::wholePage,
              bytes / m3emu::pageBytes);
  next = address + wanted + gap;
  buffers[address] = {bytes, std::move(name)};
  return memory;
}

void Memory::release(std::byte *memory) {
  std::lock_guard lock(mutex);
  auto address = reinterpret_cast<uint64_t>(memory);
  auto found = buffers.find(address);
  if (found == buffers.end())
    return;
  uint64_t bytes = roundUp(std::max<uint64_t>(found->second.bytes, 1), m3emu::pageBytes);
  std::memset(states + (address - begin()) / m3emu::pageBytes, 0, bytes / m3emu::pageBytes);
  forgetWrites(address, bytes);
  // Fresh pages: zero again, and given back to the system.
  void *fresh = mmap(memory, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (fresh == MAP_FAILED)
    std::memset(memory, 0, bytes); // it is still ours
  buffers.erase(found);
}

std::string Memory::earlyFault(uint64_t address, uint64_t bytes, bool writes, const Buffer &buffer,
                               uint64_t offset) const {
  const char *early = "before its thread has waited for the launch before";
  if (writes)
    return fmt::format("writes {} bytes at byte {} of {} {}", bytes, offset, buffer.name, early);
  bool known = false;
  eachLine(address, bytes, [&](uint64_t line) { known |= writtenStates[line] != 0; });
  if (!known)
    return {};
  return fmt::format("reads {} bytes at byte {} of {}, which launches write, {}", bytes, offset,
                     buffer.name, early);
}

void Memory::noteWrite(uint64_t address, uint64_t bytes) const {
  constexpr unsigned char partly = 2; // of a buffer's last page: its bounds are looked at each time
  eachLine(address, bytes, [&](uint64_t line) {
    uint64_t page = line / (m3emu::pageBytes / m3emu::lineBytes);
    writtenStates[line] = states[page] == m3emu::wholePage ? m3emu::wholePage : partly;
  });
}

std::string Memory::fault(uint64_t address, uint64_t bytes, bool writes, bool early) const {
  std::lock_guard lock(mutex);
  const char *verb = writes ? "writes" : "reads";
  auto after = buffers.upper_bound(address);
  if (after != buffers.begin()) {
    const auto &[begins, buffer] = *std::prev(after);
    uint64_t offset = address - begins;
    bool inside = offset <= buffer.bytes && bytes <= buffer.bytes - offset;
    bool odd = (bytes & (bytes - 1)) == 0 && address % std::min<uint64_t>(bytes, 16) != 0;
    if (inside && !odd && early)
      return earlyFault(address, bytes, writes, buffer, offset);
    if (inside && !odd) {
      if (writes)
        noteWrite(address, bytes);
      return {};
    }
    if (inside)
      return fmt::format("{} {} bytes at byte {} of {}, which is no multiple", verb, bytes, offset,
                         buffer.name);
    if (offset < buffer.bytes + gap)
      return fmt::format("{} {} bytes at byte {} of {}, which has {}", verb, bytes, offset,
                         buffer.name, buffer.bytes);
  }
  if (after != buffers.end() && after->first - address <= gap)
    return fmt::format("{} {} bytes, {} before {} begins", verb, bytes, after->first - address,
                       after->second.name);
  return fmt::format("{} {} bytes at address {:#x}, where no buffer is", verb, bytes, address);
}

} // namespace m3c::emulator
