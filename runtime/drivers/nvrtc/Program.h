// One compilation by NVRTC.
#pragma once

#include "runtime/drivers/nvrtc/Library.h"

#include <span>

namespace m3c::nvrtc {

class Program {
public:
  /// `headers` are pairs of include name and text. In messages the text is "`kernel`.cu".
  template <typename Headers>
  Program(const Library &library, std::string kernel, const std::string &text,
          const Headers &headers)
      : library(library), kernel(std::move(kernel)) {
    std::vector<const char *> names, texts;
    for (const auto &[name, header] : headers) {
      names.push_back(name.c_str());
      texts.push_back(header.c_str());
    }
    create(text, names, texts);
  }
  ~Program() { library.call.nvrtcDestroyProgram(&program); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// True when it compiled; `log` says what the compiler had to say either way.
  bool compile(const std::vector<std::string> &options);
  std::string log() const;
  /// Machine code, and PTX text, of what compiled.
  std::vector<std::byte> code() const;
  std::string assembly() const;

private:
  void create(const std::string &text, std::span<const char *const> names,
              std::span<const char *const> texts);
  void check(int result, const char *call) const;

  const Library &library;
  std::string kernel;
  Api::Program program = nullptr;
};

} // namespace m3c::nvrtc
