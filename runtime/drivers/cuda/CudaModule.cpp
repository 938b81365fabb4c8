// Modules: machine code or PTX text, and the functions in it with the limits of this device.
#include "runtime/drivers/cuda/CudaDevice.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace m3c::hal::cuda {

namespace {

constexpr uint16_t elfMachineCuda = 190;
constexpr uint32_t portableCluster = 8; // work items; more take an opt-in

bool isElf(std::span<const std::byte> code) {
  return code.size() >= SELFMAG && std::memcmp(code.data(), ELFMAG, SELFMAG) == 0;
}

/// What is wrong with `code` as an object for NVIDIA GPUs, or empty. The driver is not told where
/// the bytes end, and would read past them.
std::string objectFault(std::span<const std::byte> code) {
  Elf64_Ehdr header;
  if (code.size() < sizeof header)
    return fmt::format("{} bytes are too few for an ELF file", code.size());
  std::memcpy(&header, code.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != elfMachineCuda)
    return "it is an ELF file, but not for NVIDIA GPUs";
  auto inside = [&](uint64_t offset, uint64_t bytes) {
    return offset <= code.size() && bytes <= code.size() - offset;
  };
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      !inside(header.e_shoff, uint64_t(header.e_shnum) * sizeof(Elf64_Shdr)) ||
      !inside(header.e_phoff, uint64_t(header.e_phnum) * header.e_phentsize))
    return fmt::format("its headers end after the last of {} bytes", code.size());
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, code.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !inside(section.sh_offset, section.sh_size))
      return fmt::format("section {} ends after the last of {} bytes", i, code.size());
  }
  return "";
}

class CudaModule final : public Module {
public:
  CudaModule(const CudaDevice &device, std::span<const std::byte> code, std::string_view name)
      : device(device), moduleName(name) {
    std::string text;
    const void *image = code.data();
    if (isElf(code)) {
      if (std::string fault = objectFault(code); !fault.empty())
        fail(fault);
    } else {
      text.assign(reinterpret_cast<const char *>(code.data()), code.size());
      if (text.find(".version") == std::string::npos)
        fail("it is neither an ELF file nor PTX text");
      image = text.c_str();
    }
    char log[4096] = "";
    int options[] = {JitErrorLog, JitErrorLogBytes};
    void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
    Result result = device.call().cuModuleLoadDataEx(&handle, image, 2, options, values);
    if (result != Success)
      fail(fmt::format("cuModuleLoadDataEx: {}{}{}", device.api().text(result), *log ? "\n" : "",
                       log),
           result);
  }
  ~CudaModule() override { device.call().cuModuleUnload(handle); }

  std::unique_ptr<Kernel> kernel(const std::string &symbol, const KernelShape &shape) override {
    Function function = nullptr;
    Result result = device.call().cuModuleGetFunction(&function, handle, symbol.c_str());
    if (result != Success)
      throw Error(fmt::format("code object {} has no kernel {}", moduleName, symbol), moduleName,
                  fmt::format("cuModuleGetFunction: {}", device.api().text(result)),
                  "make the plan again with `m3c compile`");
    checkFits(symbol, function, shape);
    set(symbol, function, FunctionMaxDynamicSharedBytes, int(shape.sharedBytes));
    if (shape.cluster > portableCluster)
      set(symbol, function, FunctionNonPortableCluster, 1);
    checkOccupancy(symbol, function, shape);
    return std::make_unique<CudaKernel>(symbol, function, shape);
  }

private:
  [[noreturn]] void fail(const std::string &why, Result result = Success) const {
    std::string next = "the plan file may be damaged: `m3c verify` reads all of it";
    if (result == NoBinaryForGpu || result == UnsupportedPtxVersion)
      next = fmt::format("compile the plan for this chip ({}), or install a driver as new as the "
                         "compiler; this one has {}",
                         fmt::join(device.info().features, " "), device.info().software);
    else if (result != Success)
      next = fmt::format("an older driver than the compiler's major version cannot load its code; "
                         "this one has {}",
                         device.info().software);
    throw Error(fmt::format("cannot load code object {}", moduleName), moduleName, why, next);
  }

  int get(const std::string &symbol, Function function, int attribute) const {
    int value = 0;
    device.check(device.call().cuFuncGetAttribute(&value, attribute, function),
                 "cuFuncGetAttribute", symbol);
    return value;
  }
  void set(const std::string &symbol, Function function, int attribute, int value) const {
    device.check(device.call().cuFuncSetAttribute(function, attribute, value), "cuFuncSetAttribute",
                 symbol);
  }

  [[noreturn]] void failShape(const std::string &symbol, const std::string &why) const {
    throw Error(fmt::format("kernel {} does not fit {}", symbol, device.info().name), moduleName,
                why, "compile with another --schedule, or for this chip");
  }

  void checkFits(const std::string &symbol, Function function, const KernelShape &shape) const {
    int threads = get(symbol, function, FunctionMaxThreads);
    if (shape.threads > uint32_t(threads))
      failShape(symbol,
                fmt::format("a work item has {} threads, with {} registers each at most {} "
                            "are possible",
                            shape.threads, get(symbol, function, FunctionRegisters), threads));
    uint64_t declared = uint64_t(get(symbol, function, FunctionSharedBytes));
    uint64_t most = uint64_t(device.attribute(AttributeSharedBytesPerBlock));
    if (declared + shape.sharedBytes > most)
      failShape(symbol, fmt::format("it needs {} bytes of shared memory, {} more than the {} that "
                                    "a work item may have",
                                    declared + shape.sharedBytes,
                                    declared + shape.sharedBytes - most, most));
  }

  void checkOccupancy(const std::string &symbol, Function function,
                      const KernelShape &shape) const {
    int blocks = 0;
    device.check(device.call().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                     &blocks, function, int(shape.threads), shape.sharedBytes),
                 "cuOccupancyMaxActiveBlocksPerMultiprocessor", symbol);
    if (blocks == 0)
      failShape(symbol, fmt::format("no multiprocessor has room for {} threads of {} registers "
                                    "with {} bytes of shared memory",
                                    shape.threads, get(symbol, function, FunctionRegisters),
                                    shape.sharedBytes));
  }

  const CudaDevice &device;
  std::string moduleName;
  ModuleHandle handle = nullptr;
};

} // namespace

std::unique_ptr<Module> loadCudaModule(const CudaDevice &device, std::span<const std::byte> code,
                                       std::string_view name) {
  return std::make_unique<CudaModule>(device, code, name);
}

} // namespace m3c::hal::cuda
