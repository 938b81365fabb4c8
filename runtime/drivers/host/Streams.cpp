#include "runtime/drivers/host/Streams.h"
#include "runtime/base/Error.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>

namespace m3c::hal {

namespace {

constexpr std::string_view sectionName = "m3_streams";

class Object {
public:
  Object(std::span<std::byte> code, std::string_view name) : code(code), name(name) {
    header = read<Elf64_Ehdr>(0);
  }

  /// The list, or nothing where the object has none.
  std::optional<Elf64_Shdr> streams() const {
    if (header.e_shnum == 0)
      return {};
    if (header.e_shentsize != sizeof(Elf64_Shdr))
      fail(fmt::format("section headers of {} bytes", header.e_shentsize));
    Elf64_Shdr names = section(header.e_shstrndx);
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr one = section(i);
      if (textAt(names.sh_offset + one.sh_name) == sectionName)
        return one;
    }
    return {};
  }

  /// Where in the file the byte lies that is loaded at `address`.
  uint64_t offsetOf(uint64_t address) const {
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      auto segment = read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    }
    fail(fmt::format("address {:#x} is in no segment of code", address));
  }

  template <class T> T read(uint64_t offset) const {
    if (offset > code.size() || sizeof(T) > code.size() - offset)
      fail(fmt::format("offset {} is beyond its {} bytes", offset, code.size()));
    T value;
    std::memcpy(&value, code.data() + offset, sizeof(T));
    return value;
  }

  void write(uint64_t offset, uint8_t value) { code[offset] = std::byte(value); }

  [[noreturn]] void fail(const std::string &why) const {
    throw Error(fmt::format("cannot load code object {}", name), std::string(name),
                fmt::format("its list of prefetches: {}", why),
                "make the plan again with `m3c compile`");
  }

private:
  Elf64_Shdr section(unsigned index) const {
    return read<Elf64_Shdr>(header.e_shoff + uint64_t(index) * sizeof(Elf64_Shdr));
  }
  std::string_view textAt(uint64_t offset) const {
    if (offset >= code.size())
      fail(fmt::format("a name at {} is beyond its {} bytes", offset, code.size()));
    auto *begin = reinterpret_cast<const char *>(code.data() + offset);
    return {begin, strnlen(begin, code.size() - offset)};
  }

  std::span<std::byte> code;
  std::string_view name;
  Elf64_Ehdr header;
};

} // namespace

uint64_t streamThroughCaches(std::span<std::byte> code, std::string_view name) {
  Object object(code, name);
  std::optional<Elf64_Shdr> list = object.streams();
  if (!list)
    return 0;
  uint64_t entries = list->sh_size / sizeof(int32_t);
  for (uint64_t i = 0; i < entries; ++i) {
    uint64_t at = i * sizeof(int32_t);
    int64_t distance = object.read<int32_t>(list->sh_offset + at);
    uint64_t place = object.offsetOf(list->sh_addr + at + uint64_t(distance));
    if ((object.read<uint8_t>(place) & 0xf0) == 0x40) // REX: registers above the eighth
      ++place;
    uint8_t modRm = object.read<uint8_t>(place + 2);
    constexpr uint16_t prefetch = 0x180f; // bytes 0f 18
    if (object.read<uint16_t>(place) != prefetch || (modRm & 0x38) != 0)
      object.fail(fmt::format("entry {} is of no PREFETCHNTA", i));
    object.write(place + 2, modRm | 1 << 3);
  }
  return entries;
}

} // namespace m3c::hal
