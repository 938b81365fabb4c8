#include "compiler/toolchains/CudaCompiler.h"

#include "runtime/base/Error.h"
#include "runtime/drivers/nvrtc/Program.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace m3c::toolchains {

namespace {

constexpr const char *editHint =
    "inspect the text with --keep-sources; a fault in unedited text is a defect of m3c";

[[noreturn]] void failCompile(const std::string &kernel, const std::string &text) {
  // "scale.cu(3): error: …": the first place is where.
  llvm::StringRef first;
  for (llvm::StringRef rest = text; !rest.empty() && first.empty();) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    if (line.contains("): error") || line.contains("): catastrophic error"))
      first = line.take_until([](char c) { return c == ')'; });
  }
  std::string where = first.empty() ? kernel + ".cu" : first.str() + ")";
  std::string why = text.empty() ? "the compiler says nothing" : text;
  constexpr size_t mostBytes = 8000; // a template error can fill a screen many times
  if (why.size() > mostBytes)
    why = why.substr(0, mostBytes) + "\n…";
  throw Error(fmt::format("kernel {} does not compile", kernel), where, why, editHint);
}

// ptxas says "(C7508) …setmaxnreg ignored…" and "(C7510) Potential Performance Loss: …", and goes
// on; code that differs from what its schedule says must not pass silently.
void checkAdvice(const std::string &kernel, const std::string &text) {
  for (llvm::StringRef rest = text; !rest.empty();) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    if (line.starts_with("ptxas") &&
        (line.contains("setmaxnreg") || line.contains("Potential Performance Loss")))
      throw Error(fmt::format("kernel {} is not built as written", kernel), kernel + ".cu",
                  line.str(), "change the schedule, or the text that asks for it");
  }
}

std::vector<std::string> nvrtcOptions(const CudaCompileOptions &options) {
  std::vector<std::string> out = cudaSourceOptions(options);
  out.insert(out.begin(), "--gpu-architecture=" + options.arch);
  return out;
}

void compile(nvrtc::Program &program, const std::string &kernel, const CudaCompileOptions &options,
             bool strict) {
  bool compiled = program.compile(nvrtcOptions(options));
  std::string log = program.log();
  if (!compiled)
    failCompile(kernel, log);
  if (strict)
    checkAdvice(kernel, log);
}

} // namespace

std::vector<std::string> cudaSourceOptions(const CudaCompileOptions &options) {
  std::vector<std::string> out = {"--std=c++20",
                                  // lambdas in kernels: 13.0 takes them for functions of the host
                                  "--device-as-default-execution-space",
                                  options.contraction == Contraction::On ? "--fmad=true"
                                                                         : "--fmad=false",
                                  "--no-source-include"}; // nothing from the working folder
  out.insert(out.end(), options.extra.begin(), options.extra.end());
  return out;
}

std::vector<std::byte> compileCudaObject(const std::string &kernel, const std::string &source,
                                         const HeaderMap &headers,
                                         const CudaCompileOptions &options) {
  nvrtc::Program program(nvrtc::libraryFor(options.arch, options.arch), kernel, source, headers);
  compile(program, kernel, options, options.strict);
  return program.code();
}

std::string compileCudaAssembly(const std::string &kernel, const std::string &source,
                                const HeaderMap &headers, const CudaCompileOptions &options) {
  nvrtc::Program program(nvrtc::libraryFor(options.arch, options.arch), kernel, source, headers);
  compile(program, kernel, options, false);
  return program.assembly();
}

bool cudaBuilds(const std::string &arch, const std::string &text) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, bool> known;
  std::lock_guard lock(mutex);
  auto [entry, isNew] = known.try_emplace({arch, text}, true);
  if (!isNew)
    return entry->second;
  const nvrtc::Library *library = nullptr;
  try {
    library = &nvrtc::libraryFor(arch, arch);
  } catch (const Error &) {
    return true;
  }
  nvrtc::Program program(*library, "probe", text, HeaderMap());
  return entry->second = program.compile(nvrtcOptions({.arch = arch}));
}

std::string cudaToolchainVersion(const std::string &arch) {
  const nvrtc::Library &library = nvrtc::libraryFor(arch, arch);
  return fmt::format("NVRTC {} ({})", library.version(), library.digest());
}

} // namespace m3c::toolchains
