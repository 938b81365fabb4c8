// Kernels given as CUDA text, on an emulated device.
#pragma once

#include "runtime/base/Error.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

namespace m3c::test {

/// Texts see the device headers of the target.
std::vector<std::byte> emulatedCode(const std::string &text, const std::string &target = "sm90");

/// One kernel, run with buffers of its own.
struct BenchKernel {
  std::string name, text;
  uint32_t threads = 32;
  uint64_t sharedBytes = 0;
  hal::Grid grid = {1, 1, 1};
  uint32_t cluster = 1;
  std::string target = "sm90";
};

inline void PrintTo(const BenchKernel &kernel, std::ostream *out) { *out << kernel.name; }

/// Runs the kernel with one parameter for each of `buffers`, which get what it leaves in them.
/// Throws the emulator's Error.
void runEmulated(const BenchKernel &kernel, std::vector<std::vector<std::byte> *> buffers,
                 uint64_t seed = 1);

template <class T> std::vector<std::byte> bytesOf(const std::vector<T> &values) {
  auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
template <class T> std::vector<T> valuesOf(const std::vector<std::byte> &bytes) {
  auto *begin = reinterpret_cast<const T *>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

} // namespace m3c::test
