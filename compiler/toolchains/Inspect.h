// What stands in a built object: symbols and machine instructions.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace m3c::toolchains {

struct Instruction {
  uint64_t address;
  std::string function; ///< the symbol it stands in
  std::string mnemonic; ///< "vfmadd231ps"
  std::string operands; ///< AT&T syntax, "%zmm0, %zmm1, %zmm2"
};

struct Inspection {
  std::vector<std::string> exports; ///< defined dynamic symbols
  std::vector<std::string> imports; ///< undefined dynamic symbols
  std::vector<Instruction> instructions;
  std::map<std::string, unsigned> counts; ///< instructions by mnemonic
  uint64_t textBytes = 0;
  uint64_t spillBytes = 0; ///< places on the stack that vector registers are moved to and from

  /// Disassembly as text, one instruction a line.
  std::string text() const;
};

/// Disassembles every executable section of a shared object. Throws Error for bytes that are no
/// such object.
Inspection inspectObject(const std::string &name, std::span<const std::byte> object);

/// What inspects, for cache keys and manifests: "LLVM 22.1.8".
std::string inspectorVersion();

/// Throws Error when the object needs a symbol that is not in `allowed`.
void checkImports(const std::string &name, std::span<const std::byte> object,
                  const std::set<std::string> &allowed);

/// Patterns of instructions that must or must not occur: regular expressions (POSIX extended) on
/// "mnemonic operands", matched anywhere.
struct CodePatterns {
  std::vector<std::string> mustHave, mustNotHave;
};

/// Throws Error that names the kernel, the pattern and (for a forbidden one) the instruction.
void checkPatterns(const std::string &name, const Inspection &code, const CodePatterns &patterns);

} // namespace m3c::toolchains
