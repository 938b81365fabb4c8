#include "compiler/toolchains/CudaResources.h"

#include "compiler/toolchains/ObjectError.h"

#include "llvm/Object/ELF.h"
#include "llvm/Support/Endian.h"

#include <fmt/format.h>
#include <map>

using namespace llvm;

namespace m3c::toolchains {

namespace {

using File = object::ELFFile<object::ELF64LE>;

// Attributes of the .nv.info sections, by the names that `cuobjdump -elf` gives them.
enum Attribute : uint8_t {
  MaxThreads = 0x05,    // EIATTR_MAX_THREADS: x, y, z
  FrameSize = 0x11,     // EIATTR_FRAME_SIZE: symbol, bytes
  MinStackSize = 0x12,  // EIATTR_MIN_STACK_SIZE: symbol, bytes
  RegisterCount = 0x2f, // EIATTR_REGCOUNT: symbol, registers
  NumBarriers = 0x4c    // EIATTR_NUM_BARRIERS: count
};

// How an attribute's value is stored.
enum Form : uint8_t { NoValue = 1, ByteValue = 2, HalfValue = 3, SizedValue = 4 };

// What the hardware keeps for itself of each block's shared memory from compute capability 9.0 on;
// the section's size has it, ptxas's "smem" has not.
constexpr uint64_t reservedSharedBytes = 1024;

class Reader {
public:
  Reader(const std::string &name, std::span<const std::byte> bytes)
      : name(name), file(expect(File::create(
                        StringRef(reinterpret_cast<const char *>(bytes.data()), bytes.size())))) {
    if (file.getHeader().e_machine != ELF::EM_CUDA)
      fail("it is not for NVIDIA GPUs");
    sections = expect(file.sections());
    (void)expect(file.program_headers()); // the last part of the file: it is whole
  }

  std::vector<CudaResources> run() {
    for (const auto &section : sections)
      if (StringRef text = sectionName(section); text.consume_front(".text."))
        kernel(text).codeBytes = section.sh_size;
    readSymbols();
    for (const auto &section : sections) {
      StringRef text = sectionName(section);
      if (text == ".nv.info")
        readInfo(contents(section), nullptr);
      else if (text.consume_front(".nv.info."))
        readInfo(contents(section), &kernel(text));
      else if (text.consume_front(".nv.shared.") && kernels.contains(text.str()))
        kernel(text).sharedBytes = declaredBytes(section.sh_size);
    }
    std::vector<CudaResources> result;
    for (auto &[kernelName, resources] : kernels) {
      resources.kernel = kernelName;
      result.push_back(resources);
    }
    return result;
  }

private:
  template <typename T> T expect(Expected<T> value) const {
    return expectRead(name, std::move(value));
  }
  [[noreturn]] void fail(const std::string &why) const { failToRead(name, why); }
  StringRef sectionName(const File::Elf_Shdr &section) const {
    return expect(file.getSectionName(section));
  }
  ArrayRef<uint8_t> contents(const File::Elf_Shdr &section) const {
    return expect(file.getSectionContents(section));
  }
  uint64_t declaredBytes(uint64_t size) const {
    return reserves ? size - std::min(size, reservedSharedBytes) : size;
  }
  CudaResources &kernel(StringRef text) { return kernels[text.str()]; }

  void readSymbols() {
    for (const auto &section : sections) {
      if (section.sh_type != ELF::SHT_SYMTAB)
        continue;
      StringRef strings = expect(file.getStringTableForSymtab(section));
      for (const auto &symbol : expect(file.symbols(&section))) {
        StringRef text = expect(symbol.getName(strings));
        symbols.push_back(text.str());
        reserves |= text.starts_with(".nv.reservedSmem.") || text.starts_with("__nv_reservedSMEM_");
      }
    }
  }

  // A list of (form, attribute, value); `own` is the kernel that the section is about.
  void readInfo(ArrayRef<uint8_t> bytes, CudaResources *own) {
    while (bytes.size() >= 4) {
      uint8_t form = bytes[0], attribute = bytes[1];
      uint16_t half = support::endian::read16le(bytes.data() + 2);
      bytes = bytes.drop_front(4);
      ArrayRef<uint8_t> value;
      if (form == SizedValue) {
        if (bytes.size() < half)
          fail("an attribute ends after its section");
        value = bytes.take_front(half);
        bytes = bytes.drop_front(half);
      } else if (form < NoValue || form > SizedValue) {
        fail(fmt::format("attribute {:#x} has unknown form {}", attribute, form));
      }
      apply(attribute, form == ByteValue ? half & 0xff : half, value, own);
    }
  }

  void apply(uint8_t attribute, uint16_t small, ArrayRef<uint8_t> value, CudaResources *own) {
    auto word = [&](size_t i) {
      if (value.size() < 4 * (i + 1))
        fail(fmt::format("attribute {:#x} is cut short", attribute));
      return support::endian::read32le(value.data() + 4 * i);
    };
    auto named = [&]() -> CudaResources * {
      uint32_t symbol = word(0);
      if (symbol >= symbols.size())
        fail(fmt::format("attribute {:#x} names symbol {} of {}", attribute, symbol,
                         symbols.size()));
      auto found = kernels.find(symbols[symbol]);
      return found == kernels.end() ? nullptr : &found->second;
    };
    switch (attribute) {
    case RegisterCount:
      if (CudaResources *one = named())
        one->registers = word(1);
      return;
    case FrameSize:
    case MinStackSize:
      if (CudaResources *one = named())
        one->stackBytes = std::max<uint64_t>(one->stackBytes, word(1));
      return;
    case MaxThreads:
      if (own)
        own->maxThreads = word(0) * word(1) * word(2);
      return;
    case NumBarriers:
      if (own)
        own->barriers = small;
      return;
    default: // says nothing about resources
      return;
    }
  }

  const std::string &name;
  File file;
  ArrayRef<File::Elf_Shdr> sections;
  std::map<std::string, CudaResources> kernels;
  std::vector<std::string> symbols;
  bool reserves = false; ///< shared sections include the hardware's part
};

} // namespace

std::vector<CudaResources> readCudaResources(const std::string &name,
                                             std::span<const std::byte> object) {
  return Reader(name, object).run();
}

} // namespace m3c::toolchains
