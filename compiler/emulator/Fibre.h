// Fibres: one stack for each GPU thread of a work item, switched by Boost.Context. Its raw contexts
// are used and not `fiber`: threads of a launch that failed are dropped where they stand, and
// `fiber` would unwind them through code that has no unwind tables.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include <cstddef>

namespace m3c::emulator {

using Context = boost::context::detail::fcontext_t;

/// Stacks of 64 KiB, each with a page below it that faults. Grows, never shrinks.
class Stacks {
public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks &) = delete;
  Stacks &operator=(const Stacks &) = delete;

  /// Makes at least `count` stacks. Throws Error when there is no memory.
  void reserve(unsigned count);
  /// A fresh context that runs `entry` on stack `i`. Stacks begin at different places of a page, so
  /// that threads do not meet in the same lines of the cache.
  Context fresh(unsigned i, void (*entry)(boost::context::detail::transfer_t)) const;

private:
  std::byte *mapping = nullptr;
  size_t mapped = 0;
  unsigned count = 0;
};

} // namespace m3c::emulator
