#include "runtime/drivers/cuda/CudaBuild.h"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fs = std::filesystem;

struct _nvrtcProgram; // the library's own opaque type

namespace m3c::hal::cuda {

namespace {

constexpr const char *installHint =
    "pip install nvidia-cuda-nvrtc and set M3C_NVRTC to the folder of its libnvrtc.so, or compile "
    "the plan for this chip where m3c is installed";

/// The part of NVRTC's interface that is called, under its names.
struct Nvrtc {
  using Program = ::_nvrtcProgram *;
  int (*nvrtcVersion)(int *major, int *minor);
  int (*nvrtcGetNumSupportedArchs)(int *count);
  int (*nvrtcGetSupportedArchs)(int *architectures);
  int (*nvrtcCreateProgram)(Program *program, const char *source, const char *name, int headers,
                            const char *const *texts, const char *const *includeNames);
  int (*nvrtcDestroyProgram)(Program *program);
  int (*nvrtcCompileProgram)(Program program, int count, const char *const *options);
  int (*nvrtcGetProgramLogSize)(Program program, size_t *size);
  int (*nvrtcGetProgramLog)(Program program, char *log);
  int (*nvrtcGetCUBINSize)(Program program, size_t *size);
  int (*nvrtcGetCUBIN)(Program program, char *code);

  std::string path;
  std::vector<int> architectures; ///< 75, 80, 90, …

  /// What is missing, or empty.
  std::string bind(void *handle) {
    std::string missing;
    auto find = [&](const char *symbol, auto &function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
      if (!function && missing.empty())
        missing = symbol;
    };
#define M3C_FIND(name) find(#name, name)
    M3C_FIND(nvrtcVersion);
    M3C_FIND(nvrtcGetNumSupportedArchs);
    M3C_FIND(nvrtcGetSupportedArchs);
    M3C_FIND(nvrtcCreateProgram);
    M3C_FIND(nvrtcDestroyProgram);
    M3C_FIND(nvrtcCompileProgram);
    M3C_FIND(nvrtcGetProgramLogSize);
    M3C_FIND(nvrtcGetProgramLog);
    M3C_FIND(nvrtcGetCUBINSize);
    M3C_FIND(nvrtcGetCUBIN);
#undef M3C_FIND
    return missing;
  }
};

std::vector<std::string> librariesIn(const fs::path &folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored))
    if (at->path().filename().string().starts_with("libnvrtc.so"))
      found.push_back(at->path().string());
  std::ranges::sort(found, std::greater());
  return found;
}

std::vector<std::string> candidates() {
  std::vector<std::string> all;
  auto addFolder = [&](const fs::path &folder) {
    std::ranges::copy(librariesIn(folder), std::back_inserter(all));
  };
  if (const char *given = std::getenv("M3C_NVRTC"); given && *given) {
    addFolder(given);
    if (all.empty())
      all.push_back(given);
    return all;
  }
  all = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  addFolder("/usr/local/cuda/lib64");
  if (const char *environment = std::getenv("VIRTUAL_ENV")) {
    std::error_code ignored;
    for (fs::directory_iterator at(fs::path(environment) / "lib", ignored), end;
         !ignored && at != end; at.increment(ignored))
      for (const char *wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
        addFolder(at->path() / "site-packages" / wheel);
  }
  return all;
}

/// The first library that knows the architecture. It stays open: kernels may be built at any time.
Nvrtc openFor(int architecture, const std::string &name) {
  std::vector<std::string> refused;
  for (const std::string &path : candidates()) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      if (path.find('/') != std::string::npos)
        refused.push_back(fmt::format("{}: {}", path, dlerror()));
      continue;
    }
    Nvrtc library;
    library.path = path;
    if (std::string missing = library.bind(handle); !missing.empty()) {
      refused.push_back(fmt::format("{}: too old, it has no {}", path, missing));
      continue;
    }
    int count = 0;
    library.nvrtcGetNumSupportedArchs(&count);
    library.architectures.resize(size_t(std::max(0, count)));
    library.nvrtcGetSupportedArchs(library.architectures.data());
    if (std::ranges::count(library.architectures, architecture))
      return library;
    refused.push_back(
        fmt::format("{}: builds for {}", path, fmt::join(library.architectures, " ")));
  }
  throw Error(fmt::format("no compiler for kernel {} is here", name), "NVRTC",
              refused.empty() ? "the plan has only its source for this chip, and no libnvrtc was "
                                "found in the library path, a toolkit or $VIRTUAL_ENV"
                              : fmt::format("{}", fmt::join(refused, "; ")),
              installHint);
}

class Program {
public:
  Program(const Nvrtc &library, const SourceText &source, const std::string &name)
      : library(library), name(name) {
    std::vector<const char *> names, texts;
    for (const auto &[path, text] : source.headers) {
      names.push_back(path.c_str());
      texts.push_back(text.c_str());
    }
    check(library.nvrtcCreateProgram(&program, source.text.c_str(), (name + ".cu").c_str(),
                                     int(texts.size()), texts.data(), names.data()),
          "nvrtcCreateProgram");
  }
  ~Program() { library.nvrtcDestroyProgram(&program); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  std::vector<std::byte> build(std::vector<std::string> options, const std::string &architecture) {
    options.push_back("--gpu-architecture=" + architecture);
    std::vector<const char *> arguments;
    for (const std::string &option : options)
      arguments.push_back(option.c_str());
    check(library.nvrtcCompileProgram(program, int(arguments.size()), arguments.data()),
          "nvrtcCompileProgram");
    size_t size = 0;
    check(library.nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize");
    std::vector<std::byte> code(size);
    check(library.nvrtcGetCUBIN(program, reinterpret_cast<char *>(code.data())), "nvrtcGetCUBIN");
    return code;
  }

private:
  void check(int result, const char *call) {
    if (result == 0)
      return;
    size_t size = 0;
    std::string log;
    if (program && library.nvrtcGetProgramLogSize(program, &size) == 0 && size > 1) {
      log.resize(size);
      library.nvrtcGetProgramLog(program, log.data());
    }
    constexpr size_t mostBytes = 4000;
    throw Error(fmt::format("kernel {} cannot be built from its source", name), library.path,
                fmt::format("{}: error {}{}{}", call, result, log.empty() ? "" : "\n",
                            log.substr(0, std::min(log.find('\0'), mostBytes))),
                "compile the plan for this chip where m3c is installed");
  }

  const Nvrtc &library;
  const std::string &name;
  Nvrtc::Program program = nullptr;
};

} // namespace

std::vector<std::byte> buildCuda(const SourceText &source, const std::string &name,
                                 const std::string &architecture) {
  int number = std::atoi(architecture.c_str() + architecture.find_first_of("0123456789"));
  Nvrtc library = openFor(number, name);
  return Program(library, source, name).build(source.options, architecture);
}

} // namespace m3c::hal::cuda
