#include "compiler/toolchains/Probe.h"

#include "compiler/toolchains/CudaInspect.h"
#include "compiler/toolchains/HostCompiler.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/nvrtc/Library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  const nvrtc::Search &search = nvrtc::search();
  if (search.usable.empty())
    return {"NVRTC", false, false,
            fmt::format("not found; plans for NVIDIA GPUs need it: {}{}{}", nvrtc::hint(),
                        search.refused.empty() ? "" : "; ", fmt::join(search.refused, "; "))};
  const nvrtc::Library &newest = *search.usable.front();
  std::string detail = fmt::format("{} at {}, for {}", newest.version(), newest.path,
                                   fmt::join(newest.architectures, " "));
  for (size_t i = 1; i < search.usable.size(); ++i)
    detail += fmt::format("; also {} at {}", search.usable[i]->version(), search.usable[i]->path);
  return {"NVRTC", true, false, detail};
}

static ProbedTool probeNvdisasm() {
  const NvdisasmSearch &search = findNvdisasm();
  if (search.usable.empty())
    return {"nvdisasm", false, false,
            fmt::format("not found; without it the instructions of kernels for NVIDIA GPUs are not "
                        "checked: {}{}{}",
                        nvdisasmHint(), search.refused.empty() ? "" : "; ",
                        fmt::join(search.refused, "; "))};
  const Nvdisasm &newest = search.usable.front();
  return {"nvdisasm", true, false, fmt::format("{} at {}", newest.version(), newest.path)};
}

std::vector<ProbedTool> probeTools() { return {probeHost(), probeNvrtc(), probeNvdisasm()}; }

} // namespace m3c::toolchains
