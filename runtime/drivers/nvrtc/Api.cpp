#include "runtime/drivers/nvrtc/Api.h"

#include <algorithm>
#include <dlfcn.h>

namespace m3c::nvrtc {

std::string Api::bind(void *handle) {
  std::string missing;
  auto find = [&]<typename Function>(const char *symbol, Function &function) {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    if (!function && missing.empty())
      missing = symbol;
  };
#define M3C_FIND(name) find(#name, name)
  M3C_FIND(nvrtcVersion);
  M3C_FIND(nvrtcGetNumSupportedArchs);
  M3C_FIND(nvrtcGetSupportedArchs);
  M3C_FIND(nvrtcGetErrorString);
  M3C_FIND(nvrtcCreateProgram);
  M3C_FIND(nvrtcDestroyProgram);
  M3C_FIND(nvrtcCompileProgram);
  M3C_FIND(nvrtcGetProgramLogSize);
  M3C_FIND(nvrtcGetProgramLog);
  M3C_FIND(nvrtcGetCUBINSize);
  M3C_FIND(nvrtcGetCUBIN);
  M3C_FIND(nvrtcGetPTXSize);
  M3C_FIND(nvrtcGetPTX);
#undef M3C_FIND
  return missing;
}

std::vector<int> Api::architectures() const {
  int count = 0;
  nvrtcGetNumSupportedArchs(&count);
  std::vector<int> numbers(size_t(std::max(0, count)));
  nvrtcGetSupportedArchs(numbers.data());
  return numbers;
}

} // namespace m3c::nvrtc
