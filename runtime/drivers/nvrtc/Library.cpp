#include "runtime/drivers/nvrtc/Library.h"

#include "runtime/base/Error.h"
#include "runtime/base/Hash.h"
#include "runtime/base/MappedFile.h"
#include "runtime/drivers/nvrtc/Paths.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <mutex>

namespace fs = std::filesystem;

namespace m3c::nvrtc {

namespace {

std::string loadedPath(void *handle, const std::string &otherwise) {
  Dl_info info = {};
  void *symbol = dlsym(handle, "nvrtcVersion");
  std::error_code failed;
  if (!symbol || !dladdr(symbol, &info) || !info.dli_fname)
    return otherwise;
  fs::path real = fs::canonical(info.dli_fname, failed);
  return failed ? otherwise : real.string();
}

class Finder {
public:
  Search run() {
    if (const char *given = std::getenv("M3C_NVRTC"); given && *given) {
      std::error_code ignored;
      if (fs::is_directory(given, ignored))
        tryFolder(given);
      else
        tryLibrary(given);
      if (search.usable.empty() && search.refused.empty())
        search.refused.push_back(fmt::format("{} (M3C_NVRTC): no libnvrtc there", given));
      return std::move(search);
    }
    for (const fs::path &packages : pythonPackageFolders()) {
      tryFolder(packages / "nvidia/cu13/lib");
      tryFolder(packages / "nvidia/cuda_nvrtc/lib");
    }
    for (const fs::path &toolkit : cudaToolkitFolders())
      tryFolder(toolkit / "lib64");
    for (const char *name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"})
      tryLibrary(name);
    return std::move(search);
  }

private:
  void tryFolder(const fs::path &folder) {
    for (const fs::path &file : filesStarting(folder, "libnvrtc.so"))
      tryLibrary(file.string());
  }

  void tryLibrary(const std::string &name) {
    void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      if (name.find('/') != std::string::npos)
        search.refused.push_back(fmt::format("{}: {}", name, dlerror()));
      return;
    }
    Library library;
    library.path = loadedPath(handle, name);
    for (const Library *known : search.usable)
      if (known->path == library.path) {
        dlclose(handle);
        return;
      }
    if (std::string missing = library.call.bind(handle); !missing.empty()) {
      search.refused.push_back(fmt::format("{}: too old, it has no {}", library.path, missing));
      dlclose(handle);
      return;
    }
    library.call.nvrtcVersion(&library.major, &library.minor);
    library.architectures = library.call.architectures();
    // Newest first; of equals, the first found.
    auto place = std::ranges::find_if(search.usable, [&](const Library *known) {
      return std::pair(known->major, known->minor) < std::pair(library.major, library.minor);
    });
    search.usable.insert(place, &libraries().emplace_back(std::move(library)));
  }

  static std::deque<Library> &libraries() {
    static std::deque<Library> all; // addresses stay
    return all;
  }

  Search search;
};

// "sm_90a" -> 90.
int architectureNumber(const std::string &arch) {
  size_t digits = arch.find_first_of("0123456789");
  int number = 0;
  if (digits != std::string::npos)
    std::from_chars(arch.data() + digits, arch.data() + arch.size(), number);
  return number;
}

/// The first NVRTC that builds for an architecture: the vendor's release notes of the toolkits.
struct FirstVersion {
  int architecture;
  const char *version;
};
constexpr FirstVersion firstVersions[] = {
    {90, "11.8"}, {100, "12.8"}, {103, "12.9"}, {107, "13.4"}};

/// "sm_107a needs NVRTC 13.4 or newer; ", where that is known.
std::string needs(const std::string &arch) {
  for (const FirstVersion &first : firstVersions)
    if (first.architecture == architectureNumber(arch))
      return fmt::format("{} needs NVRTC {} or newer; ", arch, first.version);
  return "";
}

bool probe(const Library &library, const std::string &arch) {
  if (!std::ranges::count(library.architectures, architectureNumber(arch)))
    return false;
  Api::Program program = nullptr;
  if (library.call.nvrtcCreateProgram(&program, "extern \"C\" __global__ void probe() {}",
                                      "probe.cu", 0, nullptr, nullptr) != 0)
    return false;
  std::string option = "--gpu-architecture=" + arch;
  const char *options[] = {option.c_str()};
  bool built = library.call.nvrtcCompileProgram(program, 1, options) == 0;
  library.call.nvrtcDestroyProgram(&program);
  return built;
}

} // namespace

std::string Library::version() const { return fmt::format("{}.{}", major, minor); }

bool Library::canBuild(const std::string &arch) const {
  static std::mutex mutex;
  static std::map<std::pair<const Library *, std::string>, bool> known;
  std::lock_guard lock(mutex);
  auto [entry, isNew] = known.try_emplace({this, arch}, false);
  if (isNew)
    entry->second = probe(*this, arch);
  return entry->second;
}

const Search &search() {
  static std::mutex mutex;
  static std::map<std::string, Search> known;
  const char *given = std::getenv("M3C_NVRTC");
  std::lock_guard lock(mutex);
  auto [entry, isNew] = known.try_emplace(given ? given : "");
  if (isNew)
    entry->second = Finder().run();
  return entry->second;
}

const Library &libraryFor(const std::string &arch, const std::string &what) {
  const Search &all = search();
  std::vector<std::string> found;
  for (const Library *library : all.usable) {
    if (library->canBuild(arch))
      return *library;
    found.push_back(fmt::format("NVRTC {} at {} builds for {}", library->version(), library->path,
                                fmt::join(library->architectures, ", ")));
  }
  found.insert(found.end(), all.refused.begin(), all.refused.end());
  throw Error(fmt::format("no compiler for {} was found", what), "NVRTC",
              needs(arch) +
                  (found.empty()
                       ? "no libnvrtc is in a Python environment, a toolkit or the library path"
                       : fmt::format("{}", fmt::join(found, "; "))),
              hint());
}

std::string hint() {
  return "pip install 'nvidia-cuda-nvrtc==13.5.*' (in .venv or for the python3 on PATH), or set "
         "M3C_NVRTC to a libnvrtc.so";
}

std::string Library::digest() const {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  std::lock_guard lock(mutex);
  std::string &text = known[path];
  if (!text.empty())
    return text;
  Hasher128 hasher;
  hasher.add(MappedFile::open(path).bytes());
  for (const fs::path &file : filesStarting(fs::path(path).parent_path(), "libnvrtc-builtins"))
    hasher.add(MappedFile::open(file.string()).bytes());
  return text = hasher.finish().hex();
}

} // namespace m3c::nvrtc
