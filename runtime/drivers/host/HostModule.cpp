#include "runtime/base/Error.h"
#include "runtime/drivers/host/Cpu.h"
#include "runtime/drivers/host/HostDevice.h"
#include "runtime/drivers/host/Streams.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace m3c::hal {

namespace {

/// What is wrong with `code` as a shared object, or empty. The dynamic linker maps segments without
/// looking whether the file has them, and would crash.
std::string objectFault(std::span<const std::byte> code) {
  Elf64_Ehdr header;
  if (code.size() < sizeof(header))
    return fmt::format("{} bytes are too few for an ELF file", code.size());
  std::memcpy(&header, code.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN)
    return "it is not a 64-bit ELF shared object";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > code.size() ||
      header.e_phnum > (code.size() - header.e_phoff) / sizeof(Elf64_Phdr))
    return "its program headers lie outside the file";
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, code.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > code.size() || segment.p_filesz > code.size() - segment.p_offset)
      return fmt::format("segment {} ends after the last of {} bytes", i, code.size());
  }
  return "";
}

class HostModule final : public Module {
public:
  HostModule(HostDevice &device, std::span<const std::byte> object, std::string_view name)
      : device(device), moduleName(name) {
    if (std::string fault = objectFault(object); !fault.empty())
      fail(fault);
    std::span<const std::byte> code = object;
    std::vector<std::byte> changed;
    if (streamsThroughCaches()) {
      changed.assign(object.begin(), object.end());
      streamThroughCaches(changed, moduleName);
      code = changed;
    }
    descriptor = memfd_create(moduleName.c_str(), MFD_CLOEXEC);
    if (descriptor < 0)
      fail(fmt::format("memfd_create: {}", std::strerror(errno)));
    for (size_t done = 0; done < code.size();) {
      ssize_t put = ::write(descriptor, code.data() + done, code.size() - done);
      if (put < 0) {
        std::string why =
            fmt::format("writing {} bytes to memory: {}", code.size(), std::strerror(errno));
        close(descriptor);
        fail(why);
      }
      done += size_t(put);
    }
    // The linker knows a library by its path: the descriptor stays open so that no other module
    // gets the same number while this one is loaded.
    handle = dlopen(fmt::format("/proc/self/fd/{}", descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      std::string why = dlerror();
      close(descriptor);
      fail(why);
    }
  }
  ~HostModule() override {
    dlclose(handle);
    close(descriptor);
  }

  std::unique_ptr<Kernel> kernel(const std::string &symbol, const KernelShape &shape) override {
    void *address = dlsym(handle, symbol.c_str());
    if (!address)
      throw Error(fmt::format("code object {} has no kernel {}", moduleName, symbol), moduleName,
                  dlerror(), "make the plan again with `m3c compile`");
    device.shared().reserve(shape.sharedBytes);
    return std::make_unique<HostKernel>(symbol, reinterpret_cast<HostKernelFn>(address),
                                        shape.parameters);
  }

private:
  [[noreturn]] void fail(const std::string &why) const {
    throw Error(fmt::format("cannot load code object {}", moduleName), moduleName, why,
                "the object must be a shared library for this processor; the system must allow "
                "executable memory files (sysctl vm.memfd_noexec)");
  }

  HostDevice &device;
  std::string moduleName;
  int descriptor = -1;
  void *handle = nullptr;
};

} // namespace

std::unique_ptr<Module> loadHostModule(HostDevice &device, std::span<const std::byte> code,
                                       std::string_view name) {
  return std::make_unique<HostModule>(device, code, name);
}

} // namespace m3c::hal
