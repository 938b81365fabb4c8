#include "compiler/emulator/Fibre.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace m3c::emulator {

namespace {
constexpr size_t stackBytes = 64 << 10, guardBytes = 4096;
} // namespace

Stacks::~Stacks() {
  if (mapping)
    munmap(mapping, mapped);
}

void Stacks::reserve(unsigned wanted) {
  if (wanted <= count)
    return;
  if (mapping)
    munmap(mapping, mapped);
  count = 0;
  mapped = size_t(wanted) * stackBytes;
  void *area = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  mapping = area == MAP_FAILED ? nullptr : static_cast<std::byte *>(area);
  if (!mapping)
    throw Error("no memory for the stacks of emulated threads", "emulator",
                fmt::format("{} bytes: {}", mapped, std::strerror(errno)));
  for (unsigned i = 0; i < wanted; ++i)
    mprotect(mapping + i * stackBytes, guardBytes, PROT_NONE);
  count = wanted;
}

Context Stacks::fresh(unsigned i, void (*entry)(boost::context::detail::transfer_t)) const {
  size_t colour = size_t(i % 32) * 3 * 64; // bytes
  return boost::context::detail::make_fcontext(mapping + (i + 1) * stackBytes - colour,
                                               stackBytes - colour, entry);
}

} // namespace m3c::emulator
