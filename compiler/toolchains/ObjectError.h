// Errors of reading a kernel's object, alike for every chip.
#pragma once

#include "runtime/base/Error.h"

#include "llvm/Support/Error.h"

#include <string>

#include <fmt/format.h>

namespace m3c::toolchains {

[[noreturn]] inline void failToRead(const std::string &kernel, const std::string &why) {
  throw m3c::Error(fmt::format("the object of kernel {} cannot be read", kernel), "", why,
                   "build the plan again");
}

/// The value, or an Error with what LLVM says.
template <typename T> T expectRead(const std::string &kernel, llvm::Expected<T> value) {
  if (!value)
    failToRead(kernel, llvm::toString(value.takeError()));
  return std::move(*value);
}

} // namespace m3c::toolchains
