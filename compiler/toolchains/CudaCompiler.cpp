#include "compiler/toolchains/CudaCompiler.h"

#include "compiler/toolchains/Nvrtc.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

namespace m3c::toolchains {

namespace {

constexpr const char *editHint =
    "inspect the text with --keep-sources; a fault in unedited text is a defect of m3c";

// Owns NVRTC's program.
class Program {
public:
  Program(const Nvrtc &library, const std::string &kernel, const std::string &source,
          const HeaderMap &headers)
      : library(library), kernel(kernel) {
    std::vector<const char *> texts, names;
    for (const auto &[name, text] : headers) {
      names.push_back(name.c_str());
      texts.push_back(text.c_str());
    }
    check(library.call.nvrtcCreateProgram(&program, source.c_str(), (kernel + ".cu").c_str(),
                                          int(texts.size()), texts.data(), names.data()),
          "nvrtcCreateProgram");
  }
  ~Program() { library.call.nvrtcDestroyProgram(&program); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  void compile(const std::vector<std::string> &options, bool strict) {
    std::vector<const char *> arguments;
    for (const std::string &option : options)
      arguments.push_back(option.c_str());
    int result = library.call.nvrtcCompileProgram(program, int(arguments.size()), arguments.data());
    std::string text = log();
    if (result != 0)
      failCompile(result, text);
    if (strict)
      checkAdvice(text);
  }

  template <typename Size, typename Get>
  std::vector<std::byte> result(Size size, Get get, const char *what) {
    size_t bytes = 0;
    check(size(program, &bytes), what);
    std::vector<std::byte> out(bytes);
    check(get(program, reinterpret_cast<char *>(out.data())), what);
    return out;
  }

private:
  void check(int result, const char *call) const {
    if (result != 0)
      throw Error(fmt::format("kernel {} cannot be compiled", kernel), library.path,
                  fmt::format("{}: {}", call, library.call.nvrtcGetErrorString(result)));
  }

  std::string log() const {
    size_t size = 0;
    if (library.call.nvrtcGetProgramLogSize(program, &size) != 0 || size == 0)
      return "";
    std::string text(size, '\0');
    library.call.nvrtcGetProgramLog(program, text.data());
    return llvm::StringRef(text.c_str()).trim().str();
  }

  [[noreturn]] void failCompile(int result, const std::string &text) const {
    // "scale.cu(3): error: …": the first place is where.
    llvm::StringRef first, log(text);
    for (llvm::StringRef rest = log; !rest.empty() && first.empty();) {
      llvm::StringRef line;
      std::tie(line, rest) = rest.split('\n');
      if (line.contains("): error") || line.contains("): catastrophic error"))
        first = line.take_until([](char c) { return c == ')'; });
    }
    std::string where = first.empty() ? kernel + ".cu" : first.str() + ")";
    std::string why = text.empty() ? library.call.nvrtcGetErrorString(result) : text;
    constexpr size_t mostBytes = 8000; // a template error can fill a screen many times
    if (why.size() > mostBytes)
      why = why.substr(0, mostBytes) + "\n…";
    throw Error(fmt::format("kernel {} does not compile", kernel), where, why, editHint);
  }

  // ptxas says "(C7508) …setmaxnreg ignored…" and "(C7510) Potential Performance Loss: …", and goes
  // on; code that differs from what its schedule says must not pass silently.
  void checkAdvice(const std::string &text) const {
    for (llvm::StringRef rest = text; !rest.empty();) {
      llvm::StringRef line;
      std::tie(line, rest) = rest.split('\n');
      if (line.starts_with("ptxas") &&
          (line.contains("setmaxnreg") || line.contains("Potential Performance Loss")))
        throw Error(fmt::format("kernel {} is not built as written", kernel), kernel + ".cu",
                    line.str(), "change the schedule, or the text that asks for it");
    }
  }

  const Nvrtc &library;
  std::string kernel;
  hal::cuda::NvrtcApi::Program program = nullptr;
};

std::vector<std::string> nvrtcOptions(const CudaCompileOptions &options) {
  std::vector<std::string> out = cudaSourceOptions(options);
  out.insert(out.begin(), "--gpu-architecture=" + options.arch);
  return out;
}

} // namespace

std::vector<std::string> cudaSourceOptions(const CudaCompileOptions &options) {
  std::vector<std::string> out = {
      "--std=c++20", options.contraction == Contraction::On ? "--fmad=true" : "--fmad=false",
      "--no-source-include"}; // nothing from the working folder
  out.insert(out.end(), options.extra.begin(), options.extra.end());
  return out;
}

std::vector<std::byte> compileCudaObject(const std::string &kernel, const std::string &source,
                                         const HeaderMap &headers,
                                         const CudaCompileOptions &options) {
  const Nvrtc &library = nvrtcFor(options.arch);
  Program program(library, kernel, source, headers);
  program.compile(nvrtcOptions(options), options.strict);
  return program.result(library.call.nvrtcGetCUBINSize, library.call.nvrtcGetCUBIN,
                        "nvrtcGetCUBIN");
}

std::string compileCudaAssembly(const std::string &kernel, const std::string &source,
                                const HeaderMap &headers, const CudaCompileOptions &options) {
  const Nvrtc &library = nvrtcFor(options.arch);
  Program program(library, kernel, source, headers);
  program.compile(nvrtcOptions(options), false);
  std::vector<std::byte> text =
      program.result(library.call.nvrtcGetPTXSize, library.call.nvrtcGetPTX, "nvrtcGetPTX");
  return std::string(reinterpret_cast<const char *>(text.data()));
}

std::string cudaToolchainVersion(const std::string &arch) {
  const Nvrtc &library = nvrtcFor(arch);
  return fmt::format("NVRTC {} ({})", library.version(), nvrtcDigest(library));
}

} // namespace m3c::toolchains
