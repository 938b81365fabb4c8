// Capsules: one launch of one kernel with all that it needs, as a folder of plain JSON and raw
// files, for whoever has the chip. docs/capsules.md describes the files.
#pragma once

#include "runtime/hal/Hal.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace m3c {

/// Bytes of a buffer that a capsule has; the others are of no account.
struct CapsulePart {
  uint64_t offset = 0, bytes = 0;
};

/// Calls `visit` with the place of each part in the buffer, the place of its bytes among those that
/// the capsule has, and their number. Without parts it has all of `whole`.
template <typename Visit>
void visitParts(const std::vector<CapsulePart> &parts, CapsulePart whole, Visit visit) {
  if (parts.empty())
    return visit(whole.offset, uint64_t(0), whole.bytes);
  uint64_t at = 0;
  for (const CapsulePart &part : parts) {
    visit(part.offset, at, part.bytes);
    at += part.bytes;
  }
}

/// One 64-bit argument: a buffer, or part of one that an earlier argument brought, or a number.
struct CapsuleArgument {
  std::string name;
  bool isBuffer = true;
  uint64_t value = 0;                ///< a number; of a buffer, the offset of the pointer
  std::optional<size_t> same;        ///< the buffer of that argument
  std::vector<std::byte> input = {}; ///< first contents
  std::optional<std::vector<std::byte>> expected = std::nullopt; ///< contents after the launch
  /// How results are compared: bytes, or F32 or BF16 values within `tolerance` (absolute).
  enum class Element { Bytes, F32, Bf16 } element = Element::Bytes;
  double tolerance = 0;
  /// Where not empty: `input` and `expected` have these bytes of the buffer, one part after the
  /// other, and the buffer has `size` bytes. Parts ascend and do not overlap.
  std::vector<CapsulePart> parts = {};
  uint64_t size = 0;
  uint64_t bufferBytes() const { return parts.empty() ? input.size() : size; }
};
size_t elementBytes(CapsuleArgument::Element element);
/// The F32 or BF16 value that begins there.
double capsuleValue(const std::byte *bytes, CapsuleArgument::Element element);

struct Capsule {
  std::string kernel, target, chip, label;
  std::vector<std::string> features; ///< what a device must have to run `code`
  std::vector<std::byte> code;       ///< empty: only the source
  hal::SourceText source;
  hal::Grid grid;
  hal::KernelShape shape; ///< `parameters` is the number of arguments
  std::vector<CapsuleArgument> arguments;
  std::string madeBy; ///< where the expected results come from
};

/// Writes the folder; throws Error when it cannot be written.
void writeCapsule(const Capsule &capsule, const std::filesystem::path &folder);
/// Throws Error that names the file that is missing, damaged (each but capsule.json has a digest)
/// or of another size, or what in capsule.json cannot be.
Capsule readCapsule(const std::filesystem::path &folder);

/// How one argument came out.
struct CapsuleOutcome {
  std::string name;
  uint64_t elements = 0, different = 0; ///< in any bit
  double worst = 0; ///< largest difference of values; NaN against a number: infinite
  double tolerance = 0;
  bool good() const { return different == 0 || worst <= tolerance; }
};

/// Runs the capsule on a device and compares. `fromSource`: build its source there, else its code
/// is loaded. Throws Error when the device cannot run it.
std::vector<CapsuleOutcome> replayCapsule(const Capsule &capsule, hal::Device &device,
                                          bool fromSource);

} // namespace m3c
