#include "compiler/toolchains/HipResources.h"

#include "compiler/toolchains/ObjectError.h"

#include "llvm/BinaryFormat/MsgPackReader.h"
#include "llvm/Object/ELF.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

using namespace llvm;

namespace m3c::toolchains {

namespace {

using File = object::ELFFile<object::ELF64LE>;

class Reader {
public:
  Reader(const std::string &name, std::span<const std::byte> bytes)
      : name(name), file(expect(File::create(
                        StringRef(reinterpret_cast<const char *>(bytes.data()), bytes.size())))) {
    if (file.getHeader().e_machine != ELF::EM_AMDGPU)
      fail("it is not for AMD GPUs");
  }

  std::vector<HipResources> run() {
    std::vector<HipResources> result;
    for (const auto &section : expect(file.sections())) {
      if (section.sh_type != ELF::SHT_NOTE)
        continue;
      llvm::Error error = llvm::Error::success();
      for (const auto &note : file.notes(section, error))
        if (note.getName() == "AMDGPU" && note.getType() == ELF::NT_AMDGPU_METADATA)
          readNote(note.getDescAsStringRef(std::max<uint64_t>(section.sh_addralign, 4)), result);
      if (error)
        fail(toString(std::move(error)));
    }
    if (result.empty())
      fail("its notes describe no kernel");
    std::ranges::sort(result, {}, &HipResources::kernel);
    return result;
  }

private:
  template <typename T> T expect(Expected<T> value) const {
    return expectRead(name, std::move(value));
  }
  [[noreturn]] void fail(const std::string &why) const { failToRead(name, why); }

  // The notes are MessagePack. LLVM's document of it takes them to be whole; these may not be.
  msgpack::Object next(msgpack::Reader &reader) const {
    msgpack::Object object;
    if (!expect(reader.read(object)))
      fail("its notes end too early");
    return object;
  }

  /// Passes over what belongs to an object that was read.
  void skip(msgpack::Reader &reader, const msgpack::Object &object, unsigned depth = 0) const {
    if (depth > 16)
      fail("its notes are damaged");
    size_t inside = object.Kind == msgpack::Type::Map     ? 2 * object.Length
                    : object.Kind == msgpack::Type::Array ? object.Length
                                                          : 0;
    for (size_t i = 0; i < inside; ++i)
      skip(reader, next(reader), depth + 1);
  }

  /// Calls `entry` with each key of a map; it reads the value.
  template <class Entry> void eachEntry(msgpack::Reader &reader, Entry entry) const {
    msgpack::Object map = next(reader);
    if (map.Kind != msgpack::Type::Map)
      fail("its notes are damaged");
    for (size_t i = 0; i < map.Length; ++i) {
      msgpack::Object key = next(reader);
      if (key.Kind != msgpack::Type::String)
        fail("its notes are damaged");
      entry(key.Raw);
    }
  }

  template <class Element> void eachElement(msgpack::Reader &reader, Element element) const {
    msgpack::Object array = next(reader);
    if (array.Kind != msgpack::Type::Array)
      fail("its notes are damaged");
    for (size_t i = 0; i < array.Length; ++i)
      element();
  }

  // LLVM, "Code Object V5 Metadata": a map with the list "amdhsa.kernels".
  void readNote(StringRef text, std::vector<HipResources> &result) const {
    msgpack::Reader reader(text);
    eachEntry(reader, [&](StringRef key) {
      if (key != "amdhsa.kernels")
        return skip(reader, next(reader));
      eachElement(reader, [&] { result.push_back(readKernel(reader)); });
    });
  }

  HipResources readKernel(msgpack::Reader &reader) const {
    HipResources found;
    std::map<std::string, uint64_t> numbers;
    eachEntry(reader, [&](StringRef key) {
      if (key == ".args")
        return eachElement(reader, [&] { found.hiddenArguments += readArgument(reader); });
      msgpack::Object value = next(reader);
      if (key == ".name" && value.Kind == msgpack::Type::String)
        found.kernel = value.Raw.str();
      if (value.Kind == msgpack::Type::UInt)
        numbers[key.str()] = value.UInt;
      else if (value.Kind == msgpack::Type::Int && value.Int >= 0)
        numbers[key.str()] = uint64_t(value.Int);
      else
        skip(reader, value);
    });
    auto number = [&](const char *key) {
      auto at = numbers.find(key);
      if (at == numbers.end())
        fail(fmt::format("its notes do not say {}", key));
      return at->second;
    };
    if (found.kernel.empty())
      fail("its notes name no kernel");
    found.vectorRegisters = unsigned(number(".vgpr_count"));
    found.accumulatorRegisters = unsigned(number(".agpr_count"));
    found.scalarRegisters = unsigned(number(".sgpr_count"));
    found.maxThreads = unsigned(number(".max_flat_workgroup_size"));
    found.lanes = unsigned(number(".wavefront_size"));
    found.scratchBytes = number(".private_segment_fixed_size");
    found.sharedBytes = number(".group_segment_fixed_size");
    found.argumentBytes = number(".kernarg_segment_size");
    return found;
  }

  /// Whether the argument is one that the kernel does not declare.
  bool readArgument(msgpack::Reader &reader) const {
    bool hidden = false;
    eachEntry(reader, [&](StringRef key) {
      msgpack::Object value = next(reader);
      hidden |= key == ".value_kind" && value.Kind == msgpack::Type::String &&
                value.Raw.starts_with("hidden_");
      skip(reader, value);
    });
    return hidden;
  }

  const std::string &name;
  File file;
};

} // namespace

std::vector<HipResources> readHipResources(const std::string &name,
                                           std::span<const std::byte> object) {
  return Reader(name, object).run();
}

} // namespace m3c::toolchains
