// Finding libm3emu.
#include "runtime/base/Error.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <vector>

namespace m3c::hal {

namespace fs = std::filesystem;

static std::vector<std::string> candidates() {
  if (const char *given = std::getenv("M3C_EMULATOR"); given && *given)
    return {given};
  std::error_code ignored;
  fs::path folder = fs::canonical("/proc/self/exe", ignored).parent_path();
  return {(folder.parent_path() / "lib/libm3emu.so").string(), (folder / "libm3emu.so").string(),
          "libm3emu.so"};
}

static const emulator::Api &openLibrary() {
  std::vector<std::string> tried;
  for (const std::string &path : candidates()) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      tried.push_back(dlerror());
      continue;
    }
    auto get = reinterpret_cast<emulator::GetApi>(dlsym(handle, emulator::entryName));
    const emulator::Api *api = get ? get() : nullptr;
    if (api && api->version == emulator::apiVersion)
      return *api;
    tried.push_back(
        fmt::format("{}: {}", path,
                    api ? fmt::format("version {:x} of the interface, {:x} is needed: build it "
                                      "again with the programs",
                                      api->version, emulator::apiVersion)
                        : "it is not the emulator"));
    dlclose(handle);
  }
  throw Error("the emulator was not found", "libm3emu.so",
              fmt::format("{}", fmt::join(tried, "; ")),
              "build the target m3emu (it needs the compiler's libraries), or set M3C_EMULATOR to "
              "the library");
}

const emulator::Api &loadEmulator() {
  static const emulator::Api &api = openLibrary();
  return api;
}

} // namespace m3c::hal
