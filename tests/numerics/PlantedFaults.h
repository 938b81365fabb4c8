// Faults that a test plants into the texts of kernels or their device headers, to see that it finds
// them.
#pragma once

#include "tests/numerics/KernelProgram.h"

#include <ostream>
#include <regex>

namespace m3c::numerics {

/// In header `file` the first `from` becomes `to`.
struct HeaderFault {
  const char *name, *file, *from, *to;
};
inline void PrintTo(const HeaderFault &fault, std::ostream *out) { *out << fault.name; }

// Of gates, on which all kernels in tensor memory count.
inline constexpr HeaderFault gatesTooShallow = {
    "GatesTooShallow", "tensor.h",
    "void waitEmpty(i64 i) { waitFor(empty + stage(i), parity(i) ^ 1); }",
    "void waitEmpty(i64) {}"};
inline constexpr HeaderFault wrongPhase = {"WrongPhase", "tensor.h",
                                           "waitFor(full + stage(i), parity(i));",
                                           "waitFor(full + stage(i), parity(i) ^ 1);"};
inline constexpr HeaderFault missingFenceBeforeASignal = {
    "MissingFenceBeforeASignal", "tensor.h",
    "void signal(u64 *barrier) {\n    tensorFenceBefore();", "void signal(u64 *barrier) {"};
inline constexpr HeaderFault missingFenceAfterAWait = {
    "MissingFenceAfterAWait", "tensor.h", "    }\n    tensorFenceAfter();\n  }", "    }\n  }"};

/// In the text of a kernel what a regular expression finds is replaced.
struct TextFault {
  const char *name, *from, *to;
};
inline void PrintTo(const TextFault &fault, std::ostream *out) { *out << fault.name; }

/// Builds the chip's own kernels again, with the fault in their headers. Throws where the headers
/// have no place for it.
void plant(KernelProgram &built, const std::string &chip, const HeaderFault &fault);

/// Builds the chip's own kernels whose name begins with `family` again, with the fault in their
/// texts, at all places or with format_first_only at the first. Throws where one has no place.
void plant(KernelProgram &built, const std::string &chip, const std::string &family,
           const TextFault &fault,
           std::regex_constants::match_flag_type places = std::regex_constants::match_default);

} // namespace m3c::numerics
