#include "runtime/drivers/cuda/CudaLibrary.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace m3c::hal::cuda {

namespace {

// Programmatic edges came with 12.3; 12.8 is the oldest driver of this list's chips that is still
// maintained.
constexpr int oldestVersion = 12080;
constexpr const char *newerDriver =
    "install a newer NVIDIA driver (570 or later), or run on the host: --device host";

} // namespace

std::string versionText(int version) {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::shared_ptr<const Library> Library::open(const std::string &path) {
  return std::shared_ptr<const Library>(new Library(path));
}

Library::Library(const std::string &path) {
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error("no NVIDIA driver is installed", path, dlerror(),
                "install one to use NVIDIA GPUs, or run on the host: --device host");
  try {
    bind(path);
    start();
  } catch (...) {
    dlclose(handle);
    throw;
  }
}

Library::~Library() { dlclose(handle); }

void Library::bind(const std::string &path) {
  auto find = [&](const char *name, auto &function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (!function)
      throw Error("the NVIDIA driver is too old", path, fmt::format("it has no {}", name),
                  newerDriver);
  };
#define M3C_CUDA(name, parameters) find(#name, table.name);
  M3C_CUDA_FUNCTIONS(M3C_CUDA)
#undef M3C_CUDA
}

void Library::start() {
  table.cuDriverGetVersion(&apiVersion);
  if (apiVersion < oldestVersion)
    throw Error("the NVIDIA driver is too old", versionText(apiVersion),
                fmt::format("{} is the oldest that this program knows", versionText(oldestVersion)),
                newerDriver);
  if (Result result = table.cuInit(0); result != Success && result != NoDevice)
    throw Error("the NVIDIA driver does not start", "cuInit", text(result),
                "see whether nvidia-smi works: the kernel's module and the library must be of one "
                "version, and /dev/nvidia* must be accessible");
}

std::string Library::text(Result result) const {
  const char *name = nullptr, *description = nullptr;
  table.cuGetErrorName(result, &name);
  table.cuGetErrorString(result, &description);
  return fmt::format("{} ({})", name ? std::string(name) : fmt::format("error {}", result),
                     description ? description : "no description");
}

void Library::check(Result result, const char *function, std::string_view what) const {
  if (result == Success)
    return;
  throw Error(fmt::format("{} failed on the GPU", what), std::string(what),
              fmt::format("{}: {}", function, text(result)), remedy(result));
}

std::string Library::remedy(Result result) {
  bool isFault = result == IllegalAddress || result == Assertion ||
                 (result >= FirstFault && result <= LastFault);
  return isFault ? "a kernel of this process faulted, and the GPU stays lost to it: start the "
                   "program again, with --check-launches to learn which launch it is"
                 : "";
}

} // namespace m3c::hal::cuda
