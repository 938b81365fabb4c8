#include "compiler/toolchains/HipCompiler.h"

#include "compiler/toolchains/ClangRun.h"
#include "compiler/toolchains/HostLinker.h"
#include "runtime/base/Error.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/TargetParser/Triple.h"

#include <fmt/format.h>

namespace m3c::toolchains {

namespace {

constexpr const char *triple = "amdgcn-amd-amdhsa";

std::vector<std::string> clangArguments(const std::string &file, const HipCompileOptions &options) {
  const std::string &resources = clangResourceFolder();
  std::vector<std::string> args = {
      "-triple", triple, "-aux-triple", "x86_64-unknown-linux-gnu", "-emit-obj", "-x", "hip",
      "-fcuda-is-device", "-std=c++20", "-O3", "-target-cpu", options.arch,
      // No library, no exceptions, no types at run time.
      "-ffreestanding", "-fno-rtti", "-fno-threadsafe-statics", "-nostdsysteminc", "-resource-dir",
      resources, "-internal-isystem", resources + "/include", "-I", virtualRoot,
      // Code objects of version 5: explicit arguments alone are passed.
      "-mcode-object-version=5", "-mrelocation-model", "pic", "-pic-level", "2",
      "-fvisibility=hidden", "-fapply-global-visibility-to-externs", "-mframe-pointer=none",
      "-mconstructor-aliases", "-mllvm", "-amdgpu-internalize-symbols", "-vectorize-loops",
      "-vectorize-slp",
      // Nothing of this machine or this moment in the result.
      "-fdebug-compilation-dir=.", "-Qn", "-main-file-name", file, "-cuid=0", "-ferror-limit", "1",
      options.contraction == Contraction::On ? "-ffp-contract=on" : "-ffp-contract=off"};
  args.insert(args.end(), options.extra.begin(), options.extra.end());
  return args;
}

} // namespace

void requireBackend(const std::string &triple, const std::string &what) {
  initialiseBackends();
  std::string why;
  if (!llvm::TargetRegistry::lookupTarget(llvm::Triple(triple), why))
    throw Error(fmt::format("this LLVM cannot build for {}", what), triple,
                fmt::format("LLVM {} was built without that backend: {}", LLVM_VERSION_STRING, why),
                fmt::format("install a libllvm{0} with it; those of apt.llvm.org and of Debian "
                            "have all backends",
                            LLVM_VERSION_MAJOR));
}

std::vector<std::byte> compileHipObject(const std::string &kernel, const std::string &source,
                                        const HeaderMap &headers,
                                        const HipCompileOptions &options) {
  requireBackend(triple, options.arch);
  std::string file = kernel + ".hip";
  llvm::SmallVector<char, 0> object =
      runClang(kernel, file, source, headers, clangArguments(file, options));
  return linkCodeObject(kernel, std::as_bytes(std::span(object.data(), object.size())));
}

} // namespace m3c::toolchains
