#include "compiler/toolchains/Probe.h"

#include "compiler/toolchains/HostCompiler.h"
#include "runtime/base/Error.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace m3c::toolchains {

// Compiles the smallest kernel: the only proof that headers, clang and lld work together.
static ProbedTool probeHost() {
  ProbedTool tool{"host compiler", true, true, hostToolchainVersion()};
  try {
    HostCompileOptions options;
    options.isa.cpu = "x86-64-v3";
    compileHostObject(
        "probe",
        "#include <immintrin.h>\nextern \"C\" __attribute__((visibility(\"default\")))"
        " void probe(float *x) { _mm256_storeu_ps(x, _mm256_setzero_ps()); }\n",
        {}, options);
    tool.detail += ", in process, a test kernel compiles and links";
  } catch (const Error &error) {
    tool.found = false;
    tool.detail += ": " + error.summary() + ": " + error.why();
  }
  return tool;
}

static ProbedTool probeNvrtc() {
  ProbedTool tool{"NVRTC", false, false, "not found (no target needs it yet)"};
  for (const char *name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) {
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
      continue;
    int major = 0, minor = 0;
    using VersionFn = int (*)(int *, int *);
    if (auto version = reinterpret_cast<VersionFn>(dlsym(library, "nvrtcVersion")))
      version(&major, &minor);
    Dl_info info = {};
    dladdr(dlsym(library, "nvrtcVersion"), &info);
    tool = {"NVRTC", true, false,
            fmt::format("{}.{} at {}", major, minor, info.dli_fname ? info.dli_fname : name)};
    dlclose(library);
    break;
  }
  return tool;
}

std::vector<ProbedTool> probeTools() { return {probeHost(), probeNvrtc()}; }

} // namespace m3c::toolchains
