#include "compiler/toolchains/HostCompiler.h"

#include "compiler/toolchains/ClangRun.h"
#include "compiler/toolchains/HostLinker.h"
#include "compiler/toolchains/Inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c::toolchains {

namespace {

constexpr const char *triple = "x86_64-unknown-linux-gnu";

std::vector<std::string> clangArguments(const std::string &file,
                                        const HostCompileOptions &options) {
  const std::string &resources = clangResourceFolder();
  std::vector<std::string> args = {
      "-triple", triple, "-emit-obj", "-x", "c++", "-std=c++20",
      // No C library, no C++ runtime.
      "-ffreestanding", "-fno-rtti", "-fno-threadsafe-statics", "-nostdsysteminc", "-resource-dir",
      resources, "-internal-isystem", resources + "/include", "-I", virtualRoot,
      // Position-independent, everything hidden unless exported.
      "-mrelocation-model", "pic", "-pic-level", "2", "-fvisibility=hidden", "-mframe-pointer=none",
      "-mconstructor-aliases",
      // Nothing of this machine or this moment in the result.
      "-fdebug-compilation-dir=.", "-Qn", "-main-file-name", file, "-ferror-limit", "1",
      fmt::format("-O{}", options.optimisation), "-target-cpu", options.isa.cpu,
      options.contraction == Contraction::On ? "-ffp-contract=on" : "-ffp-contract=off"};
  if (options.optimisation >= 2)
    args.insert(args.end(), {"-vectorize-loops", "-vectorize-slp"});
  for (const std::string &feature : options.isa.features)
    args.insert(args.end(), {"-target-feature", feature});
  if (options.isa.preferredVectorBits)
    args.push_back(fmt::format("-mprefer-vector-width={}", options.isa.preferredVectorBits));
  args.insert(args.end(), options.extra.begin(), options.extra.end());
  return args;
}

} // namespace

std::string HostIsa::text() const {
  return fmt::format("{} {} vectors={}", cpu, fmt::join(features, ","), preferredVectorBits);
}

std::vector<std::byte> compileHostObject(const std::string &name, const std::string &source,
                                         const HeaderMap &headers,
                                         const HostCompileOptions &options) {
  std::string file = name + ".cpp";
  llvm::SmallVector<char, 0> object =
      runClang(name, file, source, headers, clangArguments(file, options), options.passes);
  std::vector<std::byte> linked =
      linkShared(name, std::as_bytes(std::span(object.data(), object.size())));
  checkImports(name, linked, {"memcpy", "memmove", "memset", "memcmp", "bcmp"});
  return linked;
}

std::string hostToolchainVersion() {
  return fmt::format("clang {}, lld {}", clangVersion(), linkerVersion());
}

} // namespace m3c::toolchains
