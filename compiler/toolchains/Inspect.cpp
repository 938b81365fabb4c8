#include "compiler/toolchains/Inspect.h"

#include "compiler/toolchains/ClangRun.h"
#include "runtime/base/Error.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Regex.h"

#include <fmt/format.h>

using namespace llvm;

namespace m3c::toolchains {

namespace {

template <typename T> T expect(const std::string &name, Expected<T> value) {
  if (value)
    return std::move(*value);
  throw Error(fmt::format("the object of kernel {} cannot be read", name), "",
              toString(value.takeError()), "build the plan again");
}

std::unique_ptr<object::ObjectFile> openObject(const std::string &name,
                                               std::span<const std::byte> bytes) {
  StringRef text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  auto object = expect(name, object::ObjectFile::createObjectFile(MemoryBufferRef(text, "object")));
  if (!isa<object::ELFObjectFileBase>(*object))
    throw Error(fmt::format("the object of kernel {} is no ELF file", name));
  return object;
}

// The parts of LLVM's machine-code layer that disassembly takes.
class Disassembler {
public:
  explicit Disassembler(const object::ObjectFile &object) : triple(object.makeTriple()) {
    initialiseBackends();
    std::string error;
    const Target *target = TargetRegistry::lookupTarget(triple, error);
    if (!target)
      throw Error("no disassembler for this object", triple.str(), error);
    registers.reset(target->createMCRegInfo(triple));
    asmInfo.reset(target->createMCAsmInfo(*registers, triple, MCTargetOptions()));
    instructions.reset(target->createMCInstrInfo());
    // Everything that a chip could have, so that no instruction is unknown; a GPU's object names
    // it.
    StringRef chip = object.tryGetCPUName().value_or("");
    subtarget.reset(target->createMCSubtargetInfo(triple, chip, ""));
    for (const SubtargetFeatureKV &feature : subtarget->getAllProcessorFeatures())
      if (StringRef(feature.Key).starts_with("avx"))
        subtarget->ApplyFeatureFlag("+" + StringRef(feature.Key).str());
    context = std::make_unique<MCContext>(triple, asmInfo.get(), registers.get(), subtarget.get());
    decoder.reset(target->createMCDisassembler(*subtarget, *context));
    printer.reset(target->createMCInstPrinter(triple, 0, *asmInfo, *instructions, *registers));
  }

  /// Appends the instructions of `code`, which is loaded at `address`.
  void run(StringRef code, uint64_t address, const std::map<uint64_t, std::string> &functions,
           std::vector<Instruction> &out) {
    ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(code.data()), code.size());
    for (uint64_t at = 0, size = 1; at < bytes.size(); at += size) {
      MCInst instruction;
      auto status =
          decoder->getInstruction(instruction, size, bytes.slice(at), address + at, nulls());
      size = std::max<uint64_t>(size, 1);
      if (status != MCDisassembler::Success)
        continue; // padding between functions
      out.push_back(render(instruction, address + at));
      auto function = functions.upper_bound(address + at);
      if (function != functions.begin())
        out.back().function = std::prev(function)->second;
    }
  }

private:
  Instruction render(const MCInst &instruction, uint64_t address) {
    std::string text;
    raw_string_ostream stream(text);
    printer->printInst(&instruction, address, "", *subtarget, stream);
    StringRef whole = StringRef(text).trim();
    auto [mnemonic, operands] = whole.split(whole.contains('\t') ? '\t' : ' ');
    return {address, "", mnemonic.trim().str(), operands.trim().str()};
  }

  Triple triple;
  std::unique_ptr<MCRegisterInfo> registers;
  std::unique_ptr<MCAsmInfo> asmInfo;
  std::unique_ptr<MCInstrInfo> instructions;
  std::unique_ptr<MCSubtargetInfo> subtarget;
  std::unique_ptr<MCContext> context;
  std::unique_ptr<MCDisassembler> decoder;
  std::unique_ptr<MCInstPrinter> printer;
};

void readSymbols(const std::string &name, const object::ObjectFile &object, Inspection &result) {
  for (const object::ELFSymbolRef symbol :
       cast<object::ELFObjectFileBase>(object).getDynamicSymbolIterators()) {
    std::string text = expect(name, symbol.getName()).str();
    uint32_t flags = expect(name, symbol.getFlags());
    if (text.empty())
      continue;
    (flags & object::SymbolRef::SF_Undefined ? result.imports : result.exports).push_back(text);
  }
}

std::map<uint64_t, std::string> functionsByAddress(const std::string &name,
                                                   const object::ObjectFile &object) {
  std::map<uint64_t, std::string> functions;
  auto add = [&](const object::ELFSymbolRef &symbol) {
    if (symbol.getELFType() == ELF::STT_FUNC && symbol.getSize() > 0)
      functions[expect(name, symbol.getAddress())] = expect(name, symbol.getName()).str();
  };
  for (const object::ELFSymbolRef symbol : cast<object::ELFObjectFileBase>(object).symbols())
    add(symbol);
  for (const object::ELFSymbolRef symbol :
       cast<object::ELFObjectFileBase>(object).getDynamicSymbolIterators())
    add(symbol);
  return functions;
}

// Places of the stack frame that a vector register is stored to and that are read again: arrays
// that are written once, such as arguments of a call, are none.
class Spills {
public:
  void see(const Instruction &instruction) {
    static const Regex store("^%([xyz])mm[0-9]+, (-?(0x)?[0-9a-f]*\\(%r[sb]p\\))$");
    static const Regex use("(^|, )(-?(0x)?[0-9a-f]*\\(%r[sb]p\\))");
    SmallVector<StringRef> parts;
    if (instruction.mnemonic.starts_with("vmov") && store.match(instruction.operands, &parts))
      stored[parts[2].str()] = parts[1] == "x" ? 16 : parts[1] == "y" ? 32 : 64;
    else if (use.match(instruction.operands, &parts))
      used.insert(parts[2].str());
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto &[place, size] : stored)
      sum += used.contains(place) ? size : 0;
    return sum;
  }

private:
  std::map<std::string, uint64_t> stored;
  std::set<std::string> used;
};

} // namespace

Inspection inspectObject(const std::string &name, std::span<const std::byte> bytes) {
  auto object = openObject(name, bytes);
  Inspection result;
  readSymbols(name, *object, result);
  auto functions = functionsByAddress(name, *object);
  Disassembler disassembler(*object);
  for (const object::SectionRef &section : object->sections()) {
    if (!section.isText() || section.getSize() == 0)
      continue;
    result.textBytes += section.getSize();
    disassembler.run(expect(name, section.getContents()), section.getAddress(), functions,
                     result.instructions);
  }
  Spills spills;
  for (const Instruction &instruction : result.instructions) {
    ++result.counts[instruction.mnemonic];
    spills.see(instruction);
  }
  result.spillBytes = spills.bytes();
  return result;
}

std::string inspectorVersion() { return "LLVM " LLVM_VERSION_STRING; }

std::string Inspection::text() const {
  std::string out, function;
  for (const Instruction &instruction : instructions) {
    if (instruction.function != function)
      out += fmt::format("\n{}:\n", function = instruction.function);
    out += fmt::format("{:8x}  {:<16} {}\n", instruction.address, instruction.mnemonic,
                       instruction.operands);
  }
  return out;
}

void checkImports(const std::string &name, std::span<const std::byte> bytes,
                  const std::set<std::string> &allowed) {
  auto object = openObject(name, bytes);
  Inspection symbols;
  readSymbols(name, *object, symbols);
  for (const std::string &symbol : symbols.imports)
    if (!allowed.contains(symbol))
      throw Error(fmt::format("kernel {} needs the symbol {}", name, symbol), "",
                  "kernels may call nothing outside themselves",
                  "use a function of the device headers instead");
}

void checkPatterns(const std::string &name, const Inspection &code, const CodePatterns &patterns) {
  auto find = [&](const std::string &pattern) -> const Instruction * {
    Regex regex(pattern);
    for (const Instruction &instruction : code.instructions)
      if (regex.match(instruction.mnemonic + " " + instruction.operands))
        return &instruction;
    return nullptr;
  };
  for (const std::string &pattern : patterns.mustHave)
    if (!find(pattern))
      throw Error(fmt::format("kernel {} lacks the instruction /{}/", name, pattern), "",
                  "its atoms promise that the machine code has it",
                  "compare `m3c extract` of this kernel with the atom's row");
  for (const std::string &pattern : patterns.mustNotHave)
    if (const Instruction *found = find(pattern))
      throw Error(fmt::format("kernel {} has the instruction {} {}", name, found->mnemonic,
                              found->operands),
                  found->function, fmt::format("/{}/ must not occur", pattern),
                  "compare `m3c extract` of this kernel with the atom's row");
}

} // namespace m3c::toolchains
