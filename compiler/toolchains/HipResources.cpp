#include "compiler/toolchains/HipResources.h"

#include "runtime/base/Error.h"

#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELF.h"

#include <algorithm>
#include <fmt/format.h>

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
    if (!value)
      fail(toString(value.takeError()));
    return std::move(*value);
  }
  [[noreturn]] void fail(const std::string &why) const {
    throw m3c::Error(fmt::format("the object of kernel {} cannot be read", name), "", why,
                     "build the plan again");
  }

  // LLVM, "Code Object V5 Metadata": a map with the list "amdhsa.kernels".
  void readNote(StringRef text, std::vector<HipResources> &result) const {
    msgpack::Document document;
    if (!document.readFromBlob(text, /*Multi=*/false) || !document.getRoot().isMap())
      fail("its notes are damaged");
    msgpack::DocNode kernels = document.getRoot().getMap()["amdhsa.kernels"];
    if (!kernels.isArray())
      fail("its notes list no kernels");
    for (msgpack::DocNode &kernel : kernels.getArray()) {
      if (!kernel.isMap())
        fail("its notes are damaged");
      result.push_back(readKernel(kernel.getMap()));
    }
  }

  HipResources readKernel(msgpack::MapDocNode &kernel) const {
    auto number = [&](const char *key) -> uint64_t {
      msgpack::DocNode node = kernel[key];
      if (node.getKind() == msgpack::Type::Int)
        return uint64_t(node.getInt());
      if (node.getKind() != msgpack::Type::UInt)
        fail(fmt::format("its notes do not say {}", key));
      return node.getUInt();
    };
    HipResources found;
    msgpack::DocNode title = kernel[".name"];
    if (!title.isString())
      fail("its notes name no kernel");
    found.kernel = title.getString().str();
    found.vectorRegisters = unsigned(number(".vgpr_count"));
    found.accumulatorRegisters = unsigned(number(".agpr_count"));
    found.scalarRegisters = unsigned(number(".sgpr_count"));
    found.maxThreads = unsigned(number(".max_flat_workgroup_size"));
    found.lanes = unsigned(number(".wavefront_size"));
    found.scratchBytes = number(".private_segment_fixed_size");
    found.sharedBytes = number(".group_segment_fixed_size");
    found.argumentBytes = number(".kernarg_segment_size");
    if (msgpack::DocNode arguments = kernel[".args"]; arguments.isArray())
      for (msgpack::DocNode &argument : arguments.getArray())
        if (argument.isMap())
          if (msgpack::DocNode kind = argument.getMap()[".value_kind"]; kind.isString())
            found.hiddenArguments += kind.getString().starts_with("hidden_");
    return found;
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
