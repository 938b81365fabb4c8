// The functions of libnvrtc that m3c calls, by the names of its public interface: the compiler
// builds kernels with them, the runtime those that a plan has only as source.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct _nvrtcProgram; // NOLINT(bugprone-reserved-identifier): the library's own opaque type

namespace m3c::nvrtc {

struct Api {
  using Program = ::_nvrtcProgram *;
  int (*nvrtcVersion)(int *major, int *minor) = nullptr;
  int (*nvrtcGetNumSupportedArchs)(int *count) = nullptr;
  int (*nvrtcGetSupportedArchs)(int *architectures) = nullptr;
  const char *(*nvrtcGetErrorString)(int result) = nullptr;
  int (*nvrtcCreateProgram)(Program *program, const char *source, const char *name, int headers,
                            const char *const *texts, const char *const *includeNames) = nullptr;
  int (*nvrtcDestroyProgram)(Program *program) = nullptr;
  int (*nvrtcCompileProgram)(Program program, int count, const char *const *options) = nullptr;
  int (*nvrtcGetProgramLogSize)(Program program, size_t *size) = nullptr;
  int (*nvrtcGetProgramLog)(Program program, char *log) = nullptr;
  int (*nvrtcGetCUBINSize)(Program program, size_t *size) = nullptr;
  int (*nvrtcGetCUBIN)(Program program, char *code) = nullptr;
  int (*nvrtcGetPTXSize)(Program program, size_t *size) = nullptr;
  int (*nvrtcGetPTX)(Program program, char *text) = nullptr;

  /// Finds the functions in a library that dlopen gave; the first that is missing, or empty.
  std::string bind(void *handle);
  /// What the library builds for: 75, 80, 90, …
  std::vector<int> architectures() const;
};

} // namespace m3c::nvrtc
