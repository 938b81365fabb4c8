// A libnvrtc without a compiler: its "machine code" is the source text, which the fake libcuda
// loads. A text with `broken` in it does not compile.
#include <cstring>
#include <string>

/// By the library's own name: callers are checked to mean the same type.
struct _nvrtcProgram {
  std::string text, log;
};
using Program = _nvrtcProgram;

namespace {
enum : int { success = 0, invalidInput = 3, compilation = 6 };
int compilations = 0;
} // namespace

extern "C" {
/// How often a program other than a probe was compiled.
int fakeNvrtcCompilations() { return compilations; }
int nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return success;
}
int nvrtcGetNumSupportedArchs(int *count) {
  *count = 2;
  return success;
}
int nvrtcGetSupportedArchs(int *architectures) {
  architectures[0] = 80;
  architectures[1] = 90;
  return success;
}
int nvrtcCreateProgram(Program **program, const char *source, const char *name, int headers,
                       const char *const *texts, const char *const *names) {
  *program = new Program{source, ""};
  for (int i = 0; i < headers; ++i)
    (*program)->log += std::string(names[i]) + ": " + texts[i] + "\n";
  (*program)->log += std::string(name) + "(1): error: it is broken\n";
  return success;
}
int nvrtcDestroyProgram(Program **program) {
  delete *program;
  *program = nullptr;
  return success;
}
int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  bool isForHopper = false;
  compilations += program->text.find("probe()") == std::string::npos;
  for (int i = 0; i < count; ++i) {
    program->log += std::string(options[i]) + "\n";
    isForHopper |= std::strcmp(options[i], "--gpu-architecture=sm_90a") == 0;
  }
  if (!isForHopper)
    return invalidInput;
  return program->text.find("broken") == std::string::npos ? success : compilation;
}
int nvrtcGetProgramLogSize(Program *program, size_t *size) {
  *size = program->log.size() + 1;
  return success;
}
int nvrtcGetProgramLog(Program *program, char *log) {
  std::strcpy(log, program->log.c_str());
  return success;
}
const char *nvrtcGetErrorString(int) { return "of the fake"; }
int nvrtcGetPTXSize(Program *program, size_t *size) {
  *size = program->text.size();
  return success;
}
int nvrtcGetPTX(Program *program, char *text) {
  std::memcpy(text, program->text.data(), program->text.size());
  return success;
}
int nvrtcGetCUBINSize(Program *program, size_t *size) {
  *size = program->text.size();
  return success;
}
int nvrtcGetCUBIN(Program *program, char *code) {
  std::memcpy(code, program->text.data(), program->text.size());
  return success;
}
}
