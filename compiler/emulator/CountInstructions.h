// How many instructions emulated threads execute, counted in the code that is made of their text.
#pragma once

namespace llvm {
class PassBuilder;
}

namespace m3c::emulator {

/// Part of cache keys: changes with what is counted.
inline constexpr const char *countedInstructions = "3";

/// Behind all passes of the optimiser: basic blocks add their instructions to the counter of the
/// thread of the CPU (m3emu::Current), one for all that are executed equally often, before a loop
/// for all of its turns where these are known. Counted are LLVM's instructions of the kernel's text
/// and of all headers, but for
/// * what emulator.h has: checks of accesses, handing operands round. A call of the emulator, an
///   instruction that threads do together, counts as one; those that check an access do not;
/// * functions of the emulated headers that are kept apart: the arithmetic of an instruction that
///   one lane does for its warp, or of a conversion.
void addInstructionCounts(llvm::PassBuilder &passes);

} // namespace m3c::emulator
