// Capsules of a plan's kernels: one step over made-up weights and cache is run launch by launch,
// and what each wanted launch finds and leaves is kept.
#pragma once

#include "runtime/capsule/Capsule.h"
#include "runtime/schedule/Engine.h"

#include <functional>

namespace m3c {

struct CapsuleRequest {
  std::string kernel = "all"; ///< a kernel, a family, or all
  uint32_t rows = 9;          ///< of a step, at most; a bucket that has fewer has its own
  uint64_t tokens = 300;      ///< in the cache before the longest sequence's row
  uint64_t seed = 1;          ///< of weights, cache, page order and token ids
  /// Whether the device runs the plan's code itself, or stands for the chip.
  bool isEmulated = false;
};

struct MadeCapsule {
  std::string folder, kernel, family, label;
  uint32_t rows = 0; ///< of the bucket
  hal::Grid grid;
  uint64_t bytes = 0; ///< of its files
};

/// Writes a folder below `folder` for each wanted kernel, bucket and grid: the first launch that
/// has them. Kernels of the target's own chip only. `made` is called after each. The engine has no
/// weights yet; it gets made-up ones. Throws Error when the plan has no such kernel, or does not
/// say what its launches do with their arguments, and when a launch changes what it only reads.
void makeCapsules(Engine &engine, const CapsuleRequest &request,
                  const std::filesystem::path &folder,
                  const std::function<void(const MadeCapsule &)> &made);

/// The largest difference of a result of an element that another device may return:
/// docs/capsules.md derives it.
double capsuleTolerance(CapsuleArgument::Element element, std::span<const std::byte> expected);

} // namespace m3c
