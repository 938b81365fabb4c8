#include "runtime/drivers/cuda/CudaBuild.h"

#include "runtime/drivers/cuda/NvrtcApi.h"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fs = std::filesystem;

namespace m3c::hal::cuda {

namespace {

constexpr const char *installHint =
    "pip install nvidia-cuda-nvrtc and set M3C_NVRTC to the folder of its libnvrtc.so, or compile "
    "the plan for this chip where m3c is installed";

/// An open library, and what it builds for.
struct Nvrtc {
  NvrtcApi call;
  std::string path;
  std::vector<int> architectures; ///< 75, 80, 90, …
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
    if (std::string missing = library.call.bind(handle); !missing.empty()) {
      refused.push_back(fmt::format("{}: too old, it has no {}", path, missing));
      continue;
    }
    library.architectures = library.call.architectures();
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
    check(library.call.nvrtcCreateProgram(&program, source.text.c_str(), (name + ".cu").c_str(),
                                          int(texts.size()), texts.data(), names.data()),
          "nvrtcCreateProgram");
  }
  ~Program() { library.call.nvrtcDestroyProgram(&program); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  std::vector<std::byte> build(std::vector<std::string> options, const std::string &architecture) {
    options.push_back("--gpu-architecture=" + architecture);
    std::vector<const char *> arguments;
    for (const std::string &option : options)
      arguments.push_back(option.c_str());
    check(library.call.nvrtcCompileProgram(program, int(arguments.size()), arguments.data()),
          "nvrtcCompileProgram");
    size_t size = 0;
    check(library.call.nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize");
    std::vector<std::byte> code(size);
    check(library.call.nvrtcGetCUBIN(program, reinterpret_cast<char *>(code.data())),
          "nvrtcGetCUBIN");
    return code;
  }

private:
  void check(int result, const char *call) {
    if (result == 0)
      return;
    size_t size = 0;
    std::string log;
    if (program && library.call.nvrtcGetProgramLogSize(program, &size) == 0 && size > 1) {
      log.resize(size);
      library.call.nvrtcGetProgramLog(program, log.data());
    }
    constexpr size_t mostBytes = 4000;
    throw Error(fmt::format("kernel {} cannot be built from its source", name), library.path,
                fmt::format("{}: error {}{}{}", call, result, log.empty() ? "" : "\n",
                            log.substr(0, std::min(log.find('\0'), mostBytes))),
                "compile the plan for this chip where m3c is installed");
  }

  const Nvrtc &library;
  const std::string &name;
  NvrtcApi::Program program = nullptr;
};

} // namespace

std::vector<std::byte> buildCuda(const SourceText &source, const std::string &name,
                                 const std::string &architecture) {
  int number = std::atoi(architecture.c_str() + architecture.find_first_of("0123456789"));
  Nvrtc library = openFor(number, name);
  return Program(library, source, name).build(source.options, architecture);
}

} // namespace m3c::hal::cuda
