#include "runtime/drivers/nvrtc/Program.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

namespace m3c::nvrtc {

void Program::create(const std::string &text, std::span<const char *const> names,
                     std::span<const char *const> texts) {
  check(library.call.nvrtcCreateProgram(&program, text.c_str(), (kernel + ".cu").c_str(),
                                        int(texts.size()), texts.data(), names.data()),
        "nvrtcCreateProgram");
}

void Program::check(int result, const char *call) const {
  if (result != 0)
    throw Error(fmt::format("kernel {} cannot be compiled", kernel), library.path,
                fmt::format("{}: {}", call, library.call.nvrtcGetErrorString(result)));
}

bool Program::compile(const std::vector<std::string> &options) {
  std::vector<const char *> arguments;
  for (const std::string &option : options)
    arguments.push_back(option.c_str());
  constexpr int doesNotCompile = 6; // NVRTC_ERROR_COMPILATION
  int result = library.call.nvrtcCompileProgram(program, int(arguments.size()), arguments.data());
  if (result != doesNotCompile)
    check(result, "nvrtcCompileProgram");
  return result == 0;
}

std::string Program::log() const {
  size_t size = 0;
  if (library.call.nvrtcGetProgramLogSize(program, &size) != 0 || size == 0)
    return "";
  std::string text(size, '\0');
  library.call.nvrtcGetProgramLog(program, text.data());
  text.resize(text.find('\0') == text.npos ? text.size() : text.find('\0'));
  text.erase(text.find_last_not_of(" \n") + 1);
  text.erase(0, text.find_first_not_of(" \n"));
  return text;
}

std::vector<std::byte> Program::code() const {
  size_t size = 0;
  check(library.call.nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize");
  std::vector<std::byte> code(size);
  check(library.call.nvrtcGetCUBIN(program, reinterpret_cast<char *>(code.data())),
        "nvrtcGetCUBIN");
  return code;
}

std::string Program::assembly() const {
  size_t size = 0;
  check(library.call.nvrtcGetPTXSize(program, &size), "nvrtcGetPTXSize");
  std::string text(size, '\0');
  check(library.call.nvrtcGetPTX(program, text.data()), "nvrtcGetPTX");
  text.resize(text.find('\0') == text.npos ? text.size() : text.find('\0'));
  return text;
}

} // namespace m3c::nvrtc
