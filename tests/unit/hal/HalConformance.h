// The conformance suite: what any driver must do. A driver joins by one row in a program that
// instantiates it (HalTest.cpp; tests/device for GPUs).
#pragma once

#include "runtime/hal/Hal.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

namespace m3c::test {

struct DriverUnderTest {
  std::string name;
  bool computes; ///< false: kernels are recorded only
  std::function<std::unique_ptr<hal::Device>()> open;
  std::function<std::vector<std::byte>()> code; ///< has the kernels of TestKernels.cpp
};

/// How GoogleTest shows a row.
inline void PrintTo(const DriverUnderTest &driver, std::ostream *out) { *out << driver.name; }

class Conformance : public testing::TestWithParam<DriverUnderTest> {
protected:
  std::unique_ptr<hal::Device> device = GetParam().open();
  std::unique_ptr<hal::Stream> stream = device->createStream();

  std::vector<float> floats(hal::Buffer &buffer, size_t count) {
    std::vector<float> values(count);
    stream->read(buffer, 0, std::as_writable_bytes(std::span(values)));
    stream->synchronize();
    return values;
  }
};

/// The kernels of the suite for NVIDIA GPUs, as PTX text, and `crash`, which stores to the address
/// that it is given.
std::vector<std::byte> ptxTestKernels();

} // namespace m3c::test
