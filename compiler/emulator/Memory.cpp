#include "compiler/emulator/Memory.h"

#include "passes/targets/common/emulated/emulator.h"
#include "runtime/base/Error.h"

#include <fmt/format.h>
#include <sys/mman.h>

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
}

Memory::~Memory() {
  munmap(base, regionBytes);
  munmap(states, pages());
}

uint64_t Memory::pages() const { return regionBytes / m3emu::pageBytes; }

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
  // Fresh pages: zero again, and given back to the system.
  void *fresh = mmap(memory, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (fresh == MAP_FAILED)
    std::memset(memory, 0, bytes); // it is still ours
  buffers.erase(found);
}

std::string Memory::fault(uint64_t address, uint64_t bytes, bool writes) const {
  std::lock_guard lock(mutex);
  const char *verb = writes ? "writes" : "reads";
  auto after = buffers.upper_bound(address);
  if (after != buffers.begin()) {
    const auto &[begins, buffer] = *std::prev(after);
    uint64_t offset = address - begins;
    bool inside = offset <= buffer.bytes && bytes <= buffer.bytes - offset;
    bool odd = (bytes & (bytes - 1)) == 0 && address % std::min<uint64_t>(bytes, 16) != 0;
    if (inside && !odd)
      return {};
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
